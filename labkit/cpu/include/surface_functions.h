// Empty: the engine has no textures and surfaces (labkit/texture.h).
#pragma once
