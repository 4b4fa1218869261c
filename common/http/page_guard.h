/// Who may read a daemon's pages from another host.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::http {

class PageGuard {
 public:
  virtual ~PageGuard() = default;

  /// kPermissionDenied or kUnavailable, with a sentence for the reader: the page is not for them. `authorization` is the
  /// field of that name of the request; empty: there is none. Hosts of the cluster are not asked about.
  virtual Status admit(std::string_view path, std::string_view authorization,
                       runtime::PeerProof shown) const = 0;
};

}  // namespace kintsugi::http
