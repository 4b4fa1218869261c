#include "client/mount/kernel/operations/attributes.h"

#include <climits>

#include <linux/limits.h>

#include "client/mount/kernel/operations/answers.h"
#include "common/base/errno_of.h"
#include "common/posix/file_time.h"

namespace kintsugi::mount::serve {
namespace {

int64_t to_ns(uint64_t seconds, uint32_t ns) {
  return posix::ns_since_1970({static_cast<int64_t>(seconds), ns});  // its seconds are signed
}

}  // namespace

asio::awaitable<int> lookup(const Served& served, Request& request, Arguments in) {
  const auto name = in.name();
  if (in.error() != 0) co_return in.error();
  co_return answer_entry(request, co_await served.file_system.lookup(request.caller, request.node, name));
}

asio::awaitable<int> get_attributes(const Served& served, Request& request, Arguments in) {
  in.take<fuse_getattr_in>();
  if (in.error() != 0) co_return in.error();
  co_return answer_attributes(request,
                              co_await served.file_system.get_attributes(request.caller, request.node));
}

asio::awaitable<int> set_attributes(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_setattr_in>();
  AttributeChanges changes;
  if ((head.valid & FATTR_MODE) != 0) changes.mode = head.mode;
  if ((head.valid & FATTR_UID) != 0) changes.uid = head.uid;
  if ((head.valid & FATTR_GID) != 0) changes.gid = head.gid;
  if ((head.valid & FATTR_SIZE) != 0) changes.size_bytes = head.size;
  if ((head.valid & FATTR_ATIME) != 0) {
    changes.accessed = {.now = (head.valid & FATTR_ATIME_NOW) != 0, .ns = to_ns(head.atime, head.atimensec)};
  }
  if ((head.valid & FATTR_MTIME) != 0) {
    changes.modified = {.now = (head.valid & FATTR_MTIME_NOW) != 0, .ns = to_ns(head.mtime, head.mtimensec)};
  }
  if ((head.valid & FATTR_FH) != 0) changes.handle = head.fh;
  changes.kill_setid = (head.valid & FATTR_KILL_SUIDGID) != 0;
  in.check_range(changes.size_bytes.value_or(0), 0);
  if (in.error() != 0) co_return in.error();
  co_return answer_attributes(
      request, co_await served.file_system.set_attributes(request.caller, request.node, changes));
}

asio::awaitable<int> read_link(const Served& served, Request& request, Arguments) {
  auto target = co_await served.file_system.read_link(request.caller, request.node);
  if (!target) co_return errno_of(target.error());
  if (target->size() >= PATH_MAX) co_return EIO;
  request.reply.text = std::move(*target);
  co_return 0;
}

asio::awaitable<int> space(const Served& served, Request& request, Arguments) {
  const auto space = co_await served.file_system.space(request.caller, request.node);
  if (!space) co_return errno_of(space.error());
  fuse_statfs_out out{};
  out.st.blocks = space->total_blocks;
  out.st.bfree = space->free_blocks;
  out.st.bavail = space->available_blocks;
  out.st.files = space->files;
  out.st.ffree = space->free_files;
  out.st.bsize = space->block_bytes;
  out.st.frsize = space->block_bytes;
  out.st.namelen = NAME_MAX;
  request.reply.put(out);
  co_return 0;
}

}  // namespace kintsugi::mount::serve
