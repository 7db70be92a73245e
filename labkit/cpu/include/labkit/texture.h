// Textures and surfaces, which the engine does not have: a kernel that reads one does not compile. (source.py refuses
// texture references.)
#pragma once

typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;

#define LABKIT_NO_TEXTURE(name)                                                                       \
    template <class T = float, class... A> inline T name(A...) {                                      \
        static_assert(sizeof...(A) > 99, "the CPU engine has no textures and surfaces: give the kernel a pointer and " \
                                         "compute the index, or run it on a GPU");                    \
        return T();                                                                                   \
    }
LABKIT_NO_TEXTURE(tex1Dfetch)
LABKIT_NO_TEXTURE(tex1D)
LABKIT_NO_TEXTURE(tex2D)
LABKIT_NO_TEXTURE(tex3D)
LABKIT_NO_TEXTURE(tex1DLayered)
LABKIT_NO_TEXTURE(tex2DLayered)
LABKIT_NO_TEXTURE(tex1DLod)
LABKIT_NO_TEXTURE(tex2DLod)
LABKIT_NO_TEXTURE(tex3DLod)
LABKIT_NO_TEXTURE(tex2Dgather)
LABKIT_NO_TEXTURE(surf1Dread)
LABKIT_NO_TEXTURE(surf2Dread)
LABKIT_NO_TEXTURE(surf3Dread)
LABKIT_NO_TEXTURE(surf1Dwrite)
LABKIT_NO_TEXTURE(surf2Dwrite)
LABKIT_NO_TEXTURE(surf3Dwrite)
#undef LABKIT_NO_TEXTURE
