/// Changes the code at sleds, and gives it back. Called by the payload, too: what holds for payload.h holds here.
#pragma once

#include "tracing/agent/recording.h"

namespace kintsugi::tracing {

/// All threads of the process have then executed an instruction after which they see code and memory as they were written before.
void synchronise_code();

/// Changes the code of functions: those that are not patched yet. REQUIRES: who calls has `growing`, and the code is writable.
void patch_functions(Recording& recording, const uint32_t* functions, uint32_t count);
/// Gives all code back as it was, byte for byte. REQUIRES: as above.
void unpatch_all(Recording& recording);

/// Makes the code writable, or no longer so. False: the kernel refuses. REQUIRES: who calls has `growing`.
bool make_writable(Recording& recording, bool writable);

}  // namespace kintsugi::tracing
