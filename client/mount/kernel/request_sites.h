/// The names of the kernel's requests in traces and diagnoses.
#pragma once

#include <cstdint>

#include "monitoring/sight/site.h"

namespace kintsugi::mount {

/// Returns the region of requests with that opcode; null where the mount does not serve such requests.
const sight::Site* site_of_request(uint32_t opcode);

}  // namespace kintsugi::mount
