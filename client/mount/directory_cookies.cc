#include "client/mount/directory_cookies.h"

namespace kintsugi::mount {
namespace {

constexpr size_t kShrinkBy = 8;

}  // namespace

DirectoryCookies::DirectoryCookies(CookieBudget& budget)
    : budget_(budget), use_(budget.by_use_.insert(budget.by_use_.end(), this)) {}

DirectoryCookies::~DirectoryCookies() {
  budget_.names_ -= names_.size();
  budget_.by_use_.erase(use_);
}

uint64_t DirectoryCookies::add(uint64_t after, std::string_view name) {
  const uint64_t cookie = after + 1;
  budget_.names_ += names_.insert_or_assign(cookie, std::string(name)).second ? 1 : 0;
  was_used();
  keep_recent_behind(cookie);
  return cookie;
}

void DirectoryCookies::keep_recent_behind(uint64_t cookie) {
  for (; oldest_recent_ + recent_ <= cookie; ++oldest_recent_)
    if (oldest_recent_ % sparse_ != 0) forget(oldest_recent_);
}

void DirectoryCookies::forget(uint64_t cookie) {
  budget_.names_ -= names_.erase(cookie);
}

void DirectoryCookies::was_used() {
  auto& by_use = budget_.by_use_;
  by_use.splice(by_use.end(), by_use, use_);
  if (budget_.names_ <= budget_.max_names_ / 2) recent_ = kRecent;
  // The one that is listed now gives way last; a name that was just added stays.
  for (size_t rounds = by_use.size(); budget_.names_ > budget_.max_names_ && rounds > 0; --rounds) {
    DirectoryCookies& oldest = *by_use.front();
    oldest.shrink();
    by_use.splice(by_use.end(), by_use, by_use.begin());
  }
}

void DirectoryCookies::shrink() {
  if (names_.size() <= 1) return;
  if (recent_ > kShrinkBy) {
    recent_ /= kShrinkBy;
  } else {
    sparse_ *= 2;
  }
  const uint64_t last = names_.rbegin()->first;
  keep_recent_behind(last);
  if (sparse_ == kSparse) return;
  // Also of those before only every so many-th is kept now.
  for (auto at = names_.begin(); at != names_.end() && at->first < oldest_recent_;) {
    if (at->first % sparse_ == 0) {
      ++at;
    } else {
      at = names_.erase(at);
      --budget_.names_;
    }
  }
}

DirectoryCookies::Position DirectoryCookies::behind(uint64_t cookie) const {
  auto at = names_.upper_bound(cookie);
  if (at == names_.begin()) return {"", cookie};
  --at;
  return {at->second, cookie - at->first};
}

}  // namespace kintsugi::mount
