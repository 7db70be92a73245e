// cooperative_groups::reduce and its operators, with the groups themselves.
#pragma once
#include "../cooperative_groups.h"
