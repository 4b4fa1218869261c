/// Precompiled for tests of the metaserver: most use all of it, on a store in memory.
#pragma once

#include "tests/metaserver/metaserver_rig.h"
#include "tests/pch.h"
