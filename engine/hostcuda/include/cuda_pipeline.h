// The primitives of cuda_pipeline_primitives.h, and cuda::pipeline.
#pragma once
#include "cuda_pipeline_primitives.h"
#include "cuda/pipeline"
