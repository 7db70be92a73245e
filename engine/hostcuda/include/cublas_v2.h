// Empty: cuBLAS is called by the host, and the host's code is in Python here.
#pragma once
