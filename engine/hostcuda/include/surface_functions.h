// Empty: hostcuda/texture.h has what the engine knows.
#pragma once
