/// Precompiled for whatever is written against whole simulated clusters: their header brings those of all daemons.
#pragma once

#include "tests/pch.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"
