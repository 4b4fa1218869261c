#include "common/posix/access_list.h"

#include <algorithm>

#include "common/proto/inode.pb.h"

namespace kintsugi::posix {
namespace {

constexpr size_t kHeaderBytes = 4, kItemBytes = 8;
constexpr uint32_t kListVersion = 2;
constexpr size_t kMaxItems = 1000;
constexpr uint32_t kNoId = 0xffffffff;

uint32_t little_endian(std::string_view bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = size; i-- > 0;)
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

void append(std::string& bytes, uint32_t value, size_t size) {
  for (size_t i = 0; i < size; ++i)
    bytes.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

Caller Caller::from(const proto::Caller& caller) {
  return {caller.uid(), caller.gid(), {caller.groups().begin(), caller.groups().end()}};
}

bool Caller::in_group(uint32_t group) const {
  return group == gid || std::ranges::find(groups, group) != groups.end();
}

bool Permissions::ask_the_list(const Caller& caller) const {
  // As Linux does it, a list whose mask grants nothing is passed over.
  return !caller.is_root() && caller.uid != owner && (mode & 0070) != 0;
}

bool Permissions::allow(const Caller& caller, uint32_t wanted, const std::optional<std::string>& list) const {
  if (caller.is_root()) {
    // Root executes what anybody may execute.
    return (wanted & kMayExecute) == 0 || is_directory || (mode & 0111) != 0;
  }
  if (caller.uid == owner) return (mode >> 6 & wanted) == wanted;
  if (list && ask_the_list(caller)) {
    const Result<AccessList> parsed = AccessList::parse(*list);
    if (parsed) return parsed->grants(caller, group, wanted);
  }
  return ((caller.in_group(group) ? mode >> 3 : mode) & wanted) == wanted;
}

bool AccessList::grants(const Caller& caller, uint32_t owning_group, uint32_t wanted) const {
  uint32_t mask = 7, other = 0;
  for (const Item& item : items) {
    if (item.tag == kMask) mask = item.permissions;
    if (item.tag == kOther) other = item.permissions;
  }
  for (const Item& item : items)
    if (item.tag == kUser && item.id == caller.uid) return (item.permissions & mask & wanted) == wanted;
  bool in_one = false;
  for (const Item& item : items) {
    const bool of_caller = (item.tag == kOwningGroup && caller.in_group(owning_group)) ||
                           (item.tag == kGroup && caller.in_group(item.id));
    if (!of_caller) continue;
    in_one = true;
    if ((item.permissions & mask & wanted) == wanted) return true;
  }
  return !in_one && (other & wanted) == wanted;
}

Result<AccessList> AccessList::parse(std::string_view bytes) {
  const Status bad{Code::kInvalidArgument, "is not an access list"};
  if (bytes.size() < kHeaderBytes || (bytes.size() - kHeaderBytes) % kItemBytes != 0 ||
      (bytes.size() - kHeaderBytes) / kItemBytes > kMaxItems || little_endian(bytes, 0, 4) != kListVersion)
    return bad;
  AccessList list;
  size_t owners = 0, groups = 0, others = 0, masks = 0, named = 0;
  for (size_t at = kHeaderBytes; at < bytes.size(); at += kItemBytes) {
    Item item{static_cast<uint16_t>(little_endian(bytes, at, 2)),
              static_cast<uint16_t>(little_endian(bytes, at + 2, 2)), little_endian(bytes, at + 4, 4)};
    if (item.permissions > 7) return bad;
    switch (item.tag) {
      case kOwner: ++owners; break;
      case kOwningGroup: ++groups; break;
      case kOther: ++others; break;
      case kMask: ++masks; break;
      case kUser:
      case kGroup: ++named; break;
      default: return bad;
    }
    list.items.push_back(item);
  }
  if (owners != 1 || groups != 1 || others != 1 || masks > 1 || (named > 0 && masks == 0)) return bad;
  return list;
}

std::string AccessList::serialise() const {
  std::string bytes;
  append(bytes, kListVersion, 4);
  for (const Item& item : items) {
    append(bytes, item.tag, 2);
    append(bytes, item.permissions, 2);
    append(bytes, item.tag == kUser || item.tag == kGroup ? item.id : kNoId, 4);
  }
  return bytes;
}

bool AccessList::is_minimal() const {
  return items.size() == 3;
}

uint32_t AccessList::mode() const {
  uint32_t owner = 0, group = 0, other = 0;
  std::optional<uint32_t> mask;
  for (const Item& item : items) {
    if (item.tag == kOwner) owner = item.permissions;
    if (item.tag == kOwningGroup) group = item.permissions;
    if (item.tag == kMask) mask = item.permissions;
    if (item.tag == kOther) other = item.permissions;
  }
  return owner << 6 | mask.value_or(group) << 3 | other;
}

void AccessList::apply_mode(uint32_t mode) {
  const bool has_mask =
      std::any_of(items.begin(), items.end(), [](const Item& item) { return item.tag == kMask; });
  for (Item& item : items) {
    if (item.tag == kOwner) item.permissions = mode >> 6 & 7;
    if (item.tag == (has_mask ? kMask : kOwningGroup)) item.permissions = mode >> 3 & 7;
    if (item.tag == kOther) item.permissions = mode & 7;
  }
}

}  // namespace kintsugi::posix
