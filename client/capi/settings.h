/// What the options of the C interface and the environment say about a connection.
#pragma once

#include "client/capi/connection.h"

namespace kintsugi::capi {

kintsugi_options default_options();

/// Arguments of kintsugi_connect. kInvalidArgument; what a secret file's reading says.
Result<ConnectionSettings> settings_of(const char* address, const char* secret_file,
                                       const kintsugi_options* options);

}  // namespace kintsugi::capi
