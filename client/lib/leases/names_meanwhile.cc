#include "client/lib/leases/names_meanwhile.h"

#include <algorithm>

namespace kintsugi::client {

bool NamesMeanwhile::Call::may_have_given(uint64_t directory, std::string_view name) const {
  if (names_.forgotten_ > since_) return true;
  const auto first = std::ranges::upper_bound(names_.given_, since_, {}, &Given::number);
  return std::any_of(first, names_.given_.end(), [&](const Given& given) {
    return given.directory == directory && (name.empty() || given.name == name);
  });
}

void NamesMeanwhile::give(uint64_t directory, std::string_view name) {
  ++last_;
  if (calls_.empty()) return;
  given_.push_back({last_, directory, std::string(name)});
  if (given_.size() <= kMost) return;
  forgotten_ = given_.front().number;
  given_.pop_front();
}

void NamesMeanwhile::forget() {
  while (!given_.empty() && (calls_.empty() || given_.front().number <= *calls_.begin()))
    given_.pop_front();
}

}  // namespace kintsugi::client
