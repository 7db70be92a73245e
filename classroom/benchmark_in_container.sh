#!/bin/bash
# classroom/benchmark.py where bubblewrap cannot run, on a machine that is thrown away afterwards: it closes its folders
# for all users but root, as the grader's image does, and lets it be the sandbox.
#
#     sudo classroom/benchmark_in_container.sh --count 1000
#
# Packages that python3 finds by PYTHONPATH are copied to where other users can read them. Needed: g++, setpriv and
# prlimit (util-linux), libseccomp2.
set -euo pipefail
from=$PWD
for command in g++ setpriv prlimit; do command -v $command >/dev/null || { echo "$command is missing"; exit 1; }; done
umask 022
lab=$(mktemp -d /opt/lab-XXXXXX)
chmod 755 "$lab"
mkdir "$lab/repository" "$lab/site" "$lab/cache" && mkdir -m 700 "$lab/work"
for each in classroom data engine labkit pyproject.toml; do cp -r "$from/$each" "$lab/repository/"; done
# An installed package has its commands in such a file.
mkdir "$lab/repository/labkit_classroom-1.dist-info"
sed -n '/entry-points/,/^$/ { s/.*"\(.*\)"\]/[\1]/; s/"//g; p }' "$from/classroom/pyproject.toml" \
    > "$lab/repository/labkit_classroom-1.dist-info/entry_points.txt"
IFS=: read -ra folders <<< "${PYTHONPATH:-}"
for folder in "${folders[@]}"; do
    case $folder in "$from" | "$from/engine" | "$from/classroom") ;; *) if [ -d "$folder" ]; then cp -r "$folder/." "$lab/site/"; fi ;; esac
done
chmod -R go=rX "$lab/repository" "$lab/site"
chmod 700 "$lab/repository/labkit/exercises/series"
unset PYTHONPATH
python3 -m venv --without-pip --system-site-packages "$lab/venv"
echo "$lab/site" > "$("$lab/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lab.pth"
for folder in /tmp /var/tmp /dev/shm /dev/mqueue /run/lock; do if [ -d $folder ]; then chmod go-w $folder; fi; done
export PYTHONPATH=$lab/repository/engine:$lab/repository/classroom:$lab/repository HOSTCUDA_SANDBOX=container HOSTCUDA_ENGINE=cpu
export HOSTCUDA_CACHE_DIR=$lab/cache LABKIT_CACHE_DIR=$lab/cache
cd "$lab/work"
"$lab/venv/bin/python" -c 'from labkit_classroom import sandbox
sandbox.require()
print(sandbox.describe_walls())'
"$lab/venv/bin/python" ../repository/classroom/benchmark.py "$@"
rm -r "$lab"
