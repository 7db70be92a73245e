// Empty: labkit/texture.h has what the engine knows.
#pragma once
