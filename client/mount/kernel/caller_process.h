/// What /proc knows of the thread that asks. It may be gone, and its number may be another's by now: fit for hints,
/// and for requests whose caller waits for the answer (and so exists).
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::mount {

/// True if a signal that ends the process is pending, and the thread only waits for its system call to return.
bool was_killed(uint32_t thread);

/// The supplementary groups of the thread. kNotFound: it is gone, or in another pid namespace.
Result<std::vector<uint32_t>> groups_of(uint32_t thread);

}  // namespace kintsugi::mount
