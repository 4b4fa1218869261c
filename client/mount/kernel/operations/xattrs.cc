#include "client/mount/kernel/operations/xattrs.h"

#include <linux/limits.h>
#include <sys/xattr.h>

#include "common/base/errno_of.h"

namespace kintsugi::mount::serve {
namespace {

/// The value stands in reply.text. An application that has no room at all asks for the size.
int answer_xattr(Request& request, uint32_t room) {
  std::string& value = request.reply.text;
  if (room == 0) {
    fuse_getxattr_out out{};
    out.size = static_cast<uint32_t>(value.size());
    value.clear();
    request.reply.put(out);
    return 0;
  }
  return value.size() > room ? ERANGE : 0;
}

}  // namespace

asio::awaitable<int> set_xattr(const Served& served, Request& request, Arguments in) {
  fuse_setxattr_in head{};
  if ((served.agreed.flags & FUSE_SETXATTR_EXT) != 0) {
    head = in.take<fuse_setxattr_in>();
  } else {
    head.size = in.take<uint32_t>();
    head.flags = in.take<uint32_t>();
  }
  const auto name = in.text(XATTR_NAME_MAX, ERANGE);
  const auto value = in.data(head.size);
  if (head.size > XATTR_SIZE_MAX) in.fail(E2BIG);
  if ((head.flags & ~uint32_t{XATTR_CREATE | XATTR_REPLACE}) != 0) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const SetXattrFlags flags{.create = (head.flags & XATTR_CREATE) != 0,
                            .replace = (head.flags & XATTR_REPLACE) != 0,
                            .kill_setgid = (head.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID) != 0};
  co_return errno_of(co_await served.file_system.set_xattr(request.caller, request.node, name, value, flags));
}

asio::awaitable<int> get_xattr(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_getxattr_in>();
  const auto name = in.text(XATTR_NAME_MAX, ERANGE);
  if (in.error() != 0) co_return in.error();
  auto value = co_await served.file_system.get_xattr(request.caller, request.node, name);
  if (!value) co_return errno_of(value.error());
  if (value->size() > XATTR_SIZE_MAX) co_return E2BIG;
  request.reply.text = std::move(*value);
  co_return answer_xattr(request, head.size);
}

asio::awaitable<int> list_xattrs(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_getxattr_in>();
  if (in.error() != 0) co_return in.error();
  const auto names = co_await served.file_system.list_xattrs(request.caller, request.node);
  if (!names) co_return errno_of(names.error());
  for (const std::string& name : *names)
    request.reply.text.append(name).push_back('\0');
  if (request.reply.text.size() > XATTR_LIST_MAX) co_return E2BIG;
  co_return answer_xattr(request, head.size);
}

asio::awaitable<int> remove_xattr(const Served& served, Request& request, Arguments in) {
  const auto name = in.text(XATTR_NAME_MAX, ERANGE);
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.remove_xattr(request.caller, request.node, name));
}

}  // namespace kintsugi::mount::serve
