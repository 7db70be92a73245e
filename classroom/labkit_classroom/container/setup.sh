#!/bin/sh
# Installs the grader into a container of Debian or Ubuntu, as root. There are no solutions in it.
set -eu
from=$(cd "$(dirname "$0")" && pwd)
umask 022
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends g++ libseccomp2
for version in 3.14 3.13 3.12 3.11; do
    apt-get install -y --no-install-recommends "python$version-venv" && break
done
mkdir -p /opt/labkit
cp -r "$from/." /opt/labkit/
cd /opt/labkit
"python$version" -m venv venv
venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
venv/bin/pip install --no-deps --no-build-isolation -e ./engine -e . -e ./classroom
chmod -R go=rX .
chmod 700 asked labkit/exercises/series
sh enter prepare
