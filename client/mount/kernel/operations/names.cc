#include "client/mount/kernel/operations/names.h"

#include <climits>
#include <cstdio>

#include <linux/fs.h>
#include <linux/limits.h>
#include <sys/stat.h>

#include "client/mount/kernel/operations/answers.h"
#include "common/base/errno_of.h"

namespace kintsugi::mount::serve {
namespace {

asio::awaitable<int> move(const Served& served, Request& request, Arguments in, fuse_rename2_in head) {
  const auto name = in.new_name();
  const auto new_name = in.new_name();
  // Whiteouts are for overlays on one machine.
  constexpr uint32_t kKnownFlags = RENAME_NOREPLACE | RENAME_EXCHANGE;
  if ((head.flags & ~kKnownFlags) != 0 || head.flags == kKnownFlags) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const RenameFlags flags{.no_replace = (head.flags & RENAME_NOREPLACE) != 0,
                          .exchange = (head.flags & RENAME_EXCHANGE) != 0};
  co_return errno_of(
      co_await served.file_system.rename(request.caller, request.node, name, head.newdir, new_name, flags));
}

}  // namespace

asio::awaitable<int> make_node(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_mknod_in>();
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  const NewNode node{.mode = head.mode, .umask = head.umask, .device = head.rdev};
  co_return answer_entry(request,
                         co_await served.file_system.make_node(request.caller, request.node, name, node));
}

asio::awaitable<int> make_directory(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_mkdir_in>();
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  const NewNode node{.mode = (head.mode & ~uint32_t{S_IFMT}) | S_IFDIR, .umask = head.umask};
  co_return answer_entry(
      request, co_await served.file_system.make_directory(request.caller, request.node, name, node));
}

asio::awaitable<int> symlink(const Served& served, Request& request, Arguments in) {
  const auto name = in.new_name();
  const auto target = in.text(PATH_MAX - 1, ENAMETOOLONG);
  if (in.error() != 0) co_return in.error();
  co_return answer_entry(request,
                         co_await served.file_system.symlink(request.caller, request.node, name, target));
}

asio::awaitable<int> link(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_link_in>();
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  co_return answer_entry(
      request, co_await served.file_system.link(request.caller, head.oldnodeid, request.node, name));
}

asio::awaitable<int> unlink(const Served& served, Request& request, Arguments in) {
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.unlink(request.caller, request.node, name));
}

asio::awaitable<int> remove_directory(const Served& served, Request& request, Arguments in) {
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.remove_directory(request.caller, request.node, name));
}

asio::awaitable<int> rename(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_rename_in>();
  return move(served, request, in, {.newdir = head.newdir, .flags = 0, .padding = 0});
}

asio::awaitable<int> rename_with_flags(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_rename2_in>();
  return move(served, request, in, head);
}

}  // namespace kintsugi::mount::serve
