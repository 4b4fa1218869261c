/// Precompiled for tests of the chunkserver: most use its store, or all of it.
#pragma once

#include "tests/chunkserver/cluster_rig.h"
#include "tests/pch.h"
