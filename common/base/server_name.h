/// What people call a server. Inside, a server is its random id (ServerId); beside it every server has a small number,
/// which the metaserver gives it when it joins and which it keeps, and a name: the configured one, or its address.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/status.h"

namespace kintsugi {

inline constexpr size_t kMaxServerNameBytes = 64;
/// A server that joins gets the number that it asks for only up to this one.
inline constexpr uint32_t kMaxWantedServerNumber = 1'000'000;

/// kInvalidArgument, one clear line: a name is 1 to kMaxServerNameBytes letters, digits, '.', '-', '_' or ':', and not
/// only digits, since those would be a number.
Status check_server_name(std::string_view name);

/// The number at the end of a name like "chunkserver-3", which a new server of that name asks for; 0: it has none, or
/// one above kMaxWantedServerNumber.
uint32_t number_in_server_name(std::string_view name);

}  // namespace kintsugi
