#include "client/capi/access.h"

#include <algorithm>

namespace kintsugi::capi {
namespace {

// The kernel's form of a list: a version, then tag, permissions and id of each item, little endian.
constexpr size_t kHeaderBytes = 4, kItemBytes = 8;
constexpr uint32_t kUser = 2, kOwningGroup = 4, kGroup = 8, kMask = 16, kOther = 32;

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

bool is_in(const proto::Caller& caller, uint32_t group) {
  return caller.gid() == group || std::ranges::find(caller.groups(), group) != caller.groups().end();
}

}  // namespace

Result<bool> is_granted(std::string_view list, const proto::Caller& caller, uint32_t owning_group,
                        uint32_t wanted) {
  if (list.size() < kHeaderBytes || (list.size() - kHeaderBytes) % kItemBytes != 0)
    return Status{Code::kInvalidArgument, "is no access list"};
  const auto each = [&](auto look) {
    for (size_t at = kHeaderBytes; at < list.size(); at += kItemBytes)
      look(little_endian(list.substr(at, 2)), little_endian(list.substr(at + 2, 2)),
           little_endian(list.substr(at + 4, 4)));
  };
  uint32_t mask = 7, other = 0;
  std::optional<uint32_t> of_user;
  each([&](uint32_t tag, uint32_t permissions, uint32_t id) {
    if (tag == kMask) mask = permissions;
    if (tag == kOther) other = permissions;
    if (tag == kUser && id == caller.uid()) of_user = permissions;
  });
  if (of_user) return (*of_user & mask & wanted) == wanted;
  bool in_one = false, granted = false;
  each([&](uint32_t tag, uint32_t permissions, uint32_t id) {
    const bool of_caller =
        (tag == kOwningGroup && is_in(caller, owning_group)) || (tag == kGroup && is_in(caller, id));
    if (!of_caller) return;
    in_one = true;
    granted |= (permissions & mask & wanted) == wanted;
  });
  return in_one ? granted : (other & wanted) == wanted;
}

asio::awaitable<Status> check_access(Context context, client::InodeCalls& calls, proto::Caller caller,
                                     proto::Attributes attributes, uint32_t wanted) {
  const Status denied{Code::kAccessDenied, "may not be opened so by this user"};
  if (caller.uid() == 0) co_return Status{};
  uint32_t bits = attributes.mode();
  if (caller.uid() == attributes.uid()) co_return (bits >> 6 & wanted) == wanted ? Status{} : denied;
  if (attributes.has_xattrs()) {
    proto::GetXattrRequest request;
    *request.mutable_caller() = caller;
    request.set_inode(attributes.inode());
    request.set_name("system.posix_acl_access");
    const auto list = co_await calls.get_xattr(context, std::move(request));
    if (!list && list.error().code() != Code::kNoData) co_return list.error();
    if (list) {
      const auto granted = is_granted(*list, caller, attributes.gid(), wanted);
      co_return granted && *granted ? Status{} : denied;
    }
  }
  if (is_in(caller, attributes.gid())) bits >>= 3;
  co_return (bits & wanted) == wanted ? Status{} : denied;
}

}  // namespace kintsugi::capi
