#include "monitoring/sight/tables/roles.h"

#include <bit>

#include "common/base/assert.h"

namespace kintsugi::sight {

RoleTable::RoleTable(uint32_t limit) : roles_(limit) {
  KINTSUGI_ASSERT(std::has_single_bit(limit));
}

uint16_t RoleTable::find(const Site& site) {
  // Few, and looked up by where they would lie if nobody else did: a daemon has some thirty.
  const auto mask = static_cast<uint32_t>(roles_.size() - 1);
  const uint32_t start = static_cast<uint32_t>(site.id()) & mask;
  for (uint32_t i = 0; i <= mask; ++i) {
    const uint32_t role = (start + i) & mask;
    if (role == 0) continue;
    if (roles_[role].site == &site || (roles_[role].site != nullptr && roles_[role].site->id() == site.id()))
      return static_cast<uint16_t>(role);
    if (roles_[role].site != nullptr) continue;
    if (used_ + 1 >= roles_.size()) break;  // one entry stays free, so that a search ends
    put(roles_[role].site, &site);
    ++used_;
    return static_cast<uint16_t>(role);
  }
  dropped_.increment();
  return 0;
}

std::vector<RoleTotals> RoleTable::read() const {
  std::vector<RoleTotals> roles(roles_.size());
  for (size_t i = 0; i < roles.size(); ++i)
    roles[i] = {get(roles_[i].site),   get(roles_[i].begun),  get(roles_[i].ended),
                get(roles_[i].failed), get(roles_[i].faulty), get(roles_[i].live)};
  return roles;
}

}  // namespace kintsugi::sight
