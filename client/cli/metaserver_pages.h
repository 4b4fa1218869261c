/// Where the metaserver's pages are.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::cli {

/// Returns the address of the pages of the metaserver at `metaserver`. `told`: as the metaserver says itself
/// (ListServersResponse.metaserver_pages); one that does not say it has them one port above, where `kintsugi cluster init`
/// puts them. kUnavailable: they are only for its own host, which is another one.
Result<runtime::Endpoint> metaserver_pages(const std::string& told, const runtime::Endpoint& metaserver);

}  // namespace kintsugi::cli
