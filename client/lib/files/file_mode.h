/// Types of inodes, as file modes have them.
#pragma once

#include <cstdint>

#include "common/proto/types.pb.h"

namespace kintsugi::client {

/// S_IFREG and its like.
uint32_t type_bits(proto::Attributes::Type type);

}  // namespace kintsugi::client
