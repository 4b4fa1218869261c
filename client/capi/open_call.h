/// open(2) on a path.
#pragma once

#include <string>

#include "client/capi/file.h"

namespace kintsugi::capi {

/// Fills `opened`, which the connection closes if nobody else does. Errors as open(2) has them.
asio::awaitable<Status> open_file(ConnectionPtr connection, std::string path, int flags, uint32_t mode,
                                  FilePtr& opened);

}  // namespace kintsugi::capi
