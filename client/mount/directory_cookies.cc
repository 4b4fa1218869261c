#include "client/mount/directory_cookies.h"

namespace kintsugi::mount {

uint64_t DirectoryCookies::add(uint64_t after, std::string_view name) {
  const uint64_t cookie = after + 1;
  names_.insert_or_assign(cookie, std::string(name));
  while (oldest_recent_ + kRecent <= cookie) {
    if (oldest_recent_ % kSparse != 0) names_.erase(oldest_recent_);
    ++oldest_recent_;
  }
  return cookie;
}

DirectoryCookies::Position DirectoryCookies::behind(uint64_t cookie) const {
  auto at = names_.upper_bound(cookie);
  if (at == names_.begin()) return {"", cookie};
  --at;
  return {at->second, cookie - at->first};
}

}  // namespace kintsugi::mount
