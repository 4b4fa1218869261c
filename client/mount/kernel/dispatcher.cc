#include "client/mount/kernel/dispatcher.h"

#include <climits>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "client/mount/kernel/directory_buffer.h"
#include "client/mount/kernel/request_sites.h"
#include "common/base/errno_of.h"
#include "common/log/log.h"

namespace kintsugi::mount {

namespace {

/// A listing is answered in parts of at most so many bytes, however many are asked for.
constexpr uint32_t kMaxListingBytes = 128 << 10;

/// Extensions stand at the end of a request, in units of 8 bytes: the caller's group that is also the parent's.
int parse_extensions(std::span<const std::byte> bytes, Caller& caller) {
  while (!bytes.empty()) {
    Arguments in(bytes);
    const auto head = in.take<fuse_ext_header>();
    if (in.error() != 0 || head.size < sizeof head || head.size > bytes.size()) return EINVAL;
    if (head.type == kExtGroups) {
      Arguments groups(bytes.subspan(sizeof head, head.size - sizeof head));
      const auto count = groups.take<uint32_t>();
      const auto first = count > 0 ? groups.take<uint32_t>() : 0;
      if (groups.error() != 0) return EINVAL;
      if (count > 0) caller.supplementary_group = first;
    }
    const size_t aligned = FUSE_REC_ALIGN(head.size);
    bytes = bytes.subspan(std::min(aligned, bytes.size()));
  }
  return 0;
}

int64_t to_ns(uint64_t seconds, uint32_t ns) {
  // Seconds are signed; what does not fit (the year 2262) becomes the last or first moment that does.
  int64_t total = 0;
  const auto signed_seconds = static_cast<int64_t>(seconds);
  if (__builtin_mul_overflow(signed_seconds, int64_t{1'000'000'000}, &total) ||
      __builtin_add_overflow(total, static_cast<int64_t>(ns), &total)) {
    return signed_seconds < 0 ? INT64_MIN : INT64_MAX;
  }
  return total;
}

std::optional<LockOwner> owner_if(bool given, uint64_t owner) {
  return given ? std::optional<LockOwner>(owner) : std::nullopt;
}

uint32_t to_fopen(const OpenAnswer& answer) {
  return (answer.direct_io ? FOPEN_DIRECT_IO : 0u) | (answer.keep_cache ? FOPEN_KEEP_CACHE : 0u) |
         (answer.nonseekable ? FOPEN_NONSEEKABLE : 0u) | (answer.cache_directory ? FOPEN_CACHE_DIR : 0u) |
         (answer.no_flush ? FOPEN_NOFLUSH : 0u) |
         (answer.parallel_direct_writes ? FOPEN_PARALLEL_DIRECT_WRITES : 0u);
}

fuse_open_out to_fuse(const OpenAnswer& answer) {
  fuse_open_out out{};
  out.fh = answer.handle;
  out.open_flags = to_fopen(answer);
  return out;
}

}  // namespace

int Dispatcher::parse_header(std::span<const std::byte> bytes, Request& request) {
  fuse_in_header head;
  if (bytes.size() < sizeof head) return kNoAnswerPossible;
  std::memcpy(&head, bytes.data(), sizeof head);
  request.answer_as = head.unique;
  request.id = head.unique & ~kUniqueResend;
  request.opcode = head.opcode;
  request.node = head.nodeid;
  request.caller = {.uid = head.uid,
                    .gid = head.gid,
                    .pid = head.pid,
                    .unique = request.id,
                    .resent = (head.unique & kUniqueResend) != 0,
                    .supplementary_group = {},
                    .interrupt = &request.interrupt};
  request.body = {};
  if (head.len != bytes.size()) return request.id == 0 ? kNoAnswerPossible : EIO;
  std::span<const std::byte> body = bytes.subspan(sizeof head);
  const size_t extensions = size_t{head.total_extlen} * 8;
  if (extensions > body.size()) return EIO;
  request.body = body.first(body.size() - extensions);
  return parse_extensions(body.last(extensions), request.caller);
}

bool Dispatcher::known(uint32_t opcode) {
  return site_of_request(opcode) != nullptr;
}

const sight::Site& Dispatcher::site(uint32_t opcode) {
  const sight::Site* site = site_of_request(opcode);
  KINTSUGI_ASSERT(site != nullptr);
  return *site;
}

asio::awaitable<int> Dispatcher::serve(Request& request) {
  Arguments in(request.body);
  switch (request.opcode) {
    case FUSE_LOOKUP: return lookup(request, in);
    case FUSE_GETATTR: return get_attributes(request, in);
    case FUSE_SETATTR: return set_attributes(request, in);
    case FUSE_READLINK: return read_link(request, in);
    case FUSE_SYMLINK: return symlink(request, in);
    case FUSE_MKNOD: return make_node(request, in);
    case FUSE_MKDIR: return make_directory(request, in);
    case FUSE_UNLINK:
    case FUSE_RMDIR: return remove(request, in);
    case FUSE_RENAME:
    case FUSE_RENAME2: return rename(request, in);
    case FUSE_LINK: return link(request, in);
    case FUSE_OPEN:
    case FUSE_OPENDIR: return open(request, in);
    case FUSE_CREATE:
    case FUSE_TMPFILE: return create(request, in);
    case FUSE_READ: return read(request, in);
    case FUSE_WRITE: return write(request, in);
    case FUSE_STATFS: return space(request, in);
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR: return release(request, in);
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR: return fsync(request, in);
    case FUSE_FLUSH: return flush(request, in);
    case FUSE_SETXATTR: return set_xattr(request, in);
    case FUSE_GETXATTR: return get_xattr(request, in);
    case FUSE_LISTXATTR: return list_xattrs(request, in);
    case FUSE_REMOVEXATTR: return remove_xattr(request, in);
    case FUSE_READDIR:
    case FUSE_READDIRPLUS: return read_directory(request, in);
    case FUSE_GETLK:
    case FUSE_SETLK:
    case FUSE_SETLKW: return lock(request, in);
    case FUSE_FALLOCATE: return allocate(request, in);
    case FUSE_LSEEK: return seek(request, in);
    case FUSE_COPY_FILE_RANGE: return copy_range(request, in);
    default: break;
  }
  KINTSUGI_ASSERT(!"an opcode that known() does not know");
  std::abort();
}

asio::awaitable<void> Dispatcher::undo(Request& request) {
  const Granted granted = std::exchange(request.granted, {});
  if (granted.opened && granted.directory) {
    (void)co_await file_system_.release_directory(request.caller, granted.opened_node, granted.handle);
  } else if (granted.opened) {
    const ReleaseRequest release{.handle = granted.handle, .flags = granted.flags};
    (void)co_await file_system_.release(request.caller, granted.opened_node, release);
  }
  if (granted.node != 0) file_system_.forget(granted.node, 1);
}

void Dispatcher::forget(const Request& request) {
  Arguments in(request.body);
  if (request.opcode == FUSE_FORGET) {
    const auto one = in.take<fuse_forget_in>();
    if (in.error() == 0 && one.nlookup > 0) file_system_.forget(request.node, one.nlookup);
    return;
  }
  const auto batch = in.take<fuse_batch_forget_in>();
  for (uint32_t i = 0; i < batch.count && in.left() >= sizeof(fuse_forget_one); ++i) {
    const auto one = in.take<fuse_forget_one>();
    if (one.nlookup > 0) file_system_.forget(one.nodeid, one.nlookup);
  }
}

int Dispatcher::answer_entry(Request& request, const Result<Entry>& entry) {
  if (!entry) return errno_of(entry.error());
  if (entry->node == 0 && entry->entry_valid <= Lifetime{0}) return ENOENT;
  request.granted.node = entry->node;
  request.reply.put(to_fuse(*entry));
  return 0;
}

int Dispatcher::answer_attributes(Request& request, const Result<AttributesAnswer>& answer) {
  if (!answer) return errno_of(answer.error());
  const fuse_entry_out lifetime =
      mount::to_fuse(Entry{.attributes = answer->attributes, .attributes_valid = answer->valid});
  fuse_attr_out out{};
  out.attr_valid = lifetime.attr_valid;
  out.attr_valid_nsec = lifetime.attr_valid_nsec;
  out.attr = lifetime.attr;
  request.reply.put(out);
  return 0;
}

asio::awaitable<int> Dispatcher::lookup(Request& request, Arguments in) {
  const auto name = in.name();
  if (in.error() != 0) co_return in.error();
  co_return answer_entry(request, co_await file_system_.lookup(request.caller, request.node, name));
}

asio::awaitable<int> Dispatcher::get_attributes(Request& request, Arguments in) {
  const auto head = in.take<fuse_getattr_in>();
  if (in.error() != 0) co_return in.error();
  const auto handle = owner_if((head.getattr_flags & FUSE_GETATTR_FH) != 0, head.fh);
  co_return answer_attributes(request,
                              co_await file_system_.get_attributes(request.caller, request.node, handle));
}

asio::awaitable<int> Dispatcher::set_attributes(Request& request, Arguments in) {
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
  if ((head.valid & FATTR_CTIME) != 0) changes.changed_ns = to_ns(head.ctime, head.ctimensec);
  changes.handle = owner_if((head.valid & FATTR_FH) != 0, head.fh);
  changes.lock_owner = owner_if((head.valid & FATTR_LOCKOWNER) != 0, head.lock_owner);
  changes.kill_setid = (head.valid & FATTR_KILL_SUIDGID) != 0;
  in.check_range(changes.size_bytes.value_or(0), 0);
  if (in.error() != 0) co_return in.error();
  co_return answer_attributes(request,
                              co_await file_system_.set_attributes(request.caller, request.node, changes));
}

asio::awaitable<int> Dispatcher::read_link(Request& request, Arguments) {
  auto target = co_await file_system_.read_link(request.caller, request.node);
  if (!target) co_return errno_of(target.error());
  if (target->size() >= PATH_MAX) co_return EIO;
  request.reply.text = std::move(*target);
  co_return 0;
}

asio::awaitable<int> Dispatcher::make_node(Request& request, Arguments in) {
  const auto head = in.take<fuse_mknod_in>();
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  const NewNode node{.mode = head.mode, .umask = head.umask, .device = head.rdev};
  co_return answer_entry(request, co_await file_system_.make_node(request.caller, request.node, name, node));
}

asio::awaitable<int> Dispatcher::make_directory(Request& request, Arguments in) {
  const auto head = in.take<fuse_mkdir_in>();
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  const NewNode node{.mode = (head.mode & ~uint32_t{S_IFMT}) | S_IFDIR, .umask = head.umask};
  co_return answer_entry(request,
                         co_await file_system_.make_directory(request.caller, request.node, name, node));
}

asio::awaitable<int> Dispatcher::symlink(Request& request, Arguments in) {
  const auto name = in.new_name();
  const auto target = in.text(PATH_MAX - 1, ENAMETOOLONG);
  if (in.error() != 0) co_return in.error();
  co_return answer_entry(request, co_await file_system_.symlink(request.caller, request.node, name, target));
}

asio::awaitable<int> Dispatcher::link(Request& request, Arguments in) {
  const auto head = in.take<fuse_link_in>();
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  co_return answer_entry(request,
                         co_await file_system_.link(request.caller, head.oldnodeid, request.node, name));
}

asio::awaitable<int> Dispatcher::remove(Request& request, Arguments in) {
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(request.opcode == FUSE_UNLINK
                         ? co_await file_system_.unlink(request.caller, request.node, name)
                         : co_await file_system_.remove_directory(request.caller, request.node, name));
}

asio::awaitable<int> Dispatcher::rename(Request& request, Arguments in) {
  fuse_rename2_in head{};
  if (request.opcode == FUSE_RENAME2) {
    head = in.take<fuse_rename2_in>();
  } else {
    head.newdir = in.take<fuse_rename_in>().newdir;
  }
  const auto name = in.new_name();
  const auto new_name = in.new_name();
  constexpr uint32_t kKnownFlags = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;
  if ((head.flags & ~kKnownFlags) != 0) in.fail(EINVAL);
  if ((head.flags & RENAME_EXCHANGE) != 0 && (head.flags & ~uint32_t{RENAME_EXCHANGE}) != 0) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const RenameFlags flags{.no_replace = (head.flags & RENAME_NOREPLACE) != 0,
                          .exchange = (head.flags & RENAME_EXCHANGE) != 0,
                          .whiteout = (head.flags & RENAME_WHITEOUT) != 0};
  co_return errno_of(
      co_await file_system_.rename(request.caller, request.node, name, head.newdir, new_name, flags));
}

asio::awaitable<int> Dispatcher::open(Request& request, Arguments in) {
  const auto head = in.take<fuse_open_in>();
  if (in.error() != 0) co_return in.error();
  const bool directory = request.opcode == FUSE_OPENDIR;
  const OpenFlags flags{.flags = static_cast<int>(head.flags),
                        .kill_setid = (head.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0};
  const auto opened = directory ? co_await file_system_.open_directory(request.caller, request.node, flags)
                                : co_await file_system_.open(request.caller, request.node, flags);
  if (!opened) co_return errno_of(opened.error());
  request.granted = {.opened = true,
                     .directory = directory,
                     .opened_node = request.node,
                     .handle = opened->handle,
                     .flags = flags.flags};
  request.reply.put(to_fuse(*opened));
  co_return 0;
}

asio::awaitable<int> Dispatcher::create(Request& request, Arguments in) {
  const auto head = in.take<fuse_create_in>();
  // The kernel sends "/" for a file that has no name.
  const bool nameless = request.opcode == FUSE_TMPFILE;
  const auto name = nameless ? in.text(NAME_MAX, ENAMETOOLONG) : in.new_name();
  if (in.error() != 0) co_return in.error();
  const NewNode node{.mode = (head.mode & ~uint32_t{S_IFMT}) | S_IFREG, .umask = head.umask};
  const OpenFlags flags{.flags = static_cast<int>(head.flags),
                        .kill_setid = (head.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0};
  const auto made = nameless
                        ? co_await file_system_.create_nameless(request.caller, request.node, node, flags)
                        : co_await file_system_.create(request.caller, request.node, name, node, flags);
  if (!made) co_return errno_of(made.error());
  request.granted = {.node = made->entry.node,
                     .opened = true,
                     .opened_node = made->entry.node,
                     .handle = made->open.handle,
                     .flags = flags.flags};
  request.reply.put(mount::to_fuse(made->entry));
  request.reply.put(to_fuse(made->open));
  co_return 0;
}

asio::awaitable<int> Dispatcher::read(Request& request, Arguments in) {
  const auto head = in.take<fuse_read_in>();
  in.check_range(head.offset, head.size);
  if (head.size > negotiated_.max_read_bytes) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const ReadRequest read{
      .handle = head.fh,
      .offset = head.offset,
      .bytes = head.size,
      .flags = static_cast<int>(head.flags),
      .lock_owner = owner_if((head.read_flags & FUSE_READ_LOCKOWNER) != 0, head.lock_owner)};
  auto answer = co_await file_system_.read(request.caller, request.node, read);
  if (!answer) co_return errno_of(answer.error());
  size_t bytes = 0;
  for (const auto& range : answer->ranges)
    bytes += range.size();
  if (bytes > head.size || answer->ranges.size() > kMaxReadRanges) {
    log::error("a read of {} bytes was answered with {} bytes in {} ranges", head.size, bytes,
               answer->ranges.size());
    co_return EIO;
  }
  request.reply.data = std::move(*answer);
  co_return 0;
}

asio::awaitable<int> Dispatcher::write(Request& request, Arguments in) {
  const auto head = in.take<fuse_write_in>();
  in.check_range(head.offset, head.size);
  const auto data = in.data(head.size);
  if (in.left() != 0) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const WriteRequest write{
      .handle = head.fh,
      .offset = head.offset,
      .data = data,
      .flags = static_cast<int>(head.flags),
      .from_page_cache = (head.write_flags & FUSE_WRITE_CACHE) != 0,
      .kill_setid = (head.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0,
      .lock_owner = owner_if((head.write_flags & FUSE_WRITE_LOCKOWNER) != 0, head.lock_owner)};
  const auto written = co_await file_system_.write(request.caller, request.node, write);
  if (!written) co_return errno_of(written.error());
  if (*written > head.size) co_return EIO;
  fuse_write_out out{};
  out.size = *written;
  request.reply.put(out);
  co_return 0;
}

asio::awaitable<int> Dispatcher::flush(Request& request, Arguments in) {
  const auto head = in.take<fuse_flush_in>();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await file_system_.flush(request.caller, request.node, head.fh, head.lock_owner));
}

asio::awaitable<int> Dispatcher::release(Request& request, Arguments in) {
  const auto head = in.take<fuse_release_in>();
  if (in.error() != 0) co_return in.error();
  if (request.opcode == FUSE_RELEASEDIR) {
    co_return errno_of(co_await file_system_.release_directory(request.caller, request.node, head.fh));
  }
  const ReleaseRequest release{.handle = head.fh,
                               .flags = static_cast<int>(head.flags),
                               .lock_owner = head.lock_owner,
                               .flush = (head.release_flags & FUSE_RELEASE_FLUSH) != 0,
                               .unlock_flock = (head.release_flags & FUSE_RELEASE_FLOCK_UNLOCK) != 0};
  co_return errno_of(co_await file_system_.release(request.caller, request.node, release));
}

asio::awaitable<int> Dispatcher::fsync(Request& request, Arguments in) {
  const auto head = in.take<fuse_fsync_in>();
  if (in.error() != 0) co_return in.error();
  const bool data_only = (head.fsync_flags & FUSE_FSYNC_FDATASYNC) != 0;
  co_return errno_of(
      request.opcode == FUSE_FSYNC
          ? co_await file_system_.fsync(request.caller, request.node, head.fh, data_only)
          : co_await file_system_.fsync_directory(request.caller, request.node, head.fh, data_only));
}

asio::awaitable<int> Dispatcher::read_directory(Request& request, Arguments in) {
  const auto head = in.take<fuse_read_in>();
  if (head.size > negotiated_.max_read_bytes) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const bool plus = request.opcode == FUSE_READDIRPLUS;
  DirectoryBuffer listing(request.reply.text, std::min(head.size, kMaxListingBytes), plus);
  const Status status =
      co_await file_system_.read_directory(request.caller, request.node, head.fh, head.offset, plus, listing);
  // What was packed before an error is good, and the error comes again when the rest is asked for.
  if (!status.ok() && request.reply.text.empty()) co_return errno_of(status);
  co_return 0;
}

asio::awaitable<int> Dispatcher::space(Request& request, Arguments) {
  const auto space = co_await file_system_.space(request.caller, request.node);
  if (!space) co_return errno_of(space.error());
  fuse_statfs_out out{};
  out.st.blocks = space->total_blocks;
  out.st.bfree = space->free_blocks;
  out.st.bavail = space->available_blocks;
  out.st.files = space->files;
  out.st.ffree = space->free_files;
  out.st.bsize = space->block_bytes;
  out.st.frsize = space->fragment_bytes;
  out.st.namelen = space->name_bytes;
  request.reply.put(out);
  co_return 0;
}

asio::awaitable<int> Dispatcher::set_xattr(Request& request, Arguments in) {
  fuse_setxattr_in head{};
  if ((negotiated_.flags & FUSE_SETXATTR_EXT) != 0) {
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
  const bool create = (head.flags & XATTR_CREATE) != 0, replace = (head.flags & XATTR_REPLACE) != 0;
  const auto mode = create && replace ? SetXattrMode::kCreateAndReplace
                    : create          ? SetXattrMode::kCreate
                    : replace         ? SetXattrMode::kReplace
                                      : SetXattrMode::kAny;
  const bool kill_setgid = (head.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID) != 0;
  co_return errno_of(
      co_await file_system_.set_xattr(request.caller, request.node, name, value, mode, kill_setgid));
}

/// The value stands in reply.text. An application that has no room at all asks for the size.
int Dispatcher::answer_xattr(Request& request, uint32_t room) {
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

asio::awaitable<int> Dispatcher::get_xattr(Request& request, Arguments in) {
  const auto head = in.take<fuse_getxattr_in>();
  const auto name = in.text(XATTR_NAME_MAX, ERANGE);
  if (in.error() != 0) co_return in.error();
  auto value = co_await file_system_.get_xattr(request.caller, request.node, name);
  if (!value) co_return errno_of(value.error());
  if (value->size() > XATTR_SIZE_MAX) co_return E2BIG;
  request.reply.text = std::move(*value);
  co_return answer_xattr(request, head.size);
}

asio::awaitable<int> Dispatcher::list_xattrs(Request& request, Arguments in) {
  const auto head = in.take<fuse_getxattr_in>();
  if (in.error() != 0) co_return in.error();
  const auto names = co_await file_system_.list_xattrs(request.caller, request.node);
  if (!names) co_return errno_of(names.error());
  for (const std::string& name : *names)
    request.reply.text.append(name).push_back('\0');
  if (request.reply.text.size() > XATTR_LIST_MAX) co_return E2BIG;
  co_return answer_xattr(request, head.size);
}

asio::awaitable<int> Dispatcher::remove_xattr(Request& request, Arguments in) {
  const auto name = in.text(XATTR_NAME_MAX, ERANGE);
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await file_system_.remove_xattr(request.caller, request.node, name));
}

asio::awaitable<int> Dispatcher::lock(Request& request, Arguments in) {
  const auto head = in.take<fuse_lk_in>();
  LockRequest lock{.handle = head.fh,
                   .owner = head.owner,
                   .lock = {.start = head.lk.start, .end = head.lk.end, .pid = head.lk.pid},
                   .flock = (head.lk_flags & FUSE_LK_FLOCK) != 0,
                   .wait = request.opcode == FUSE_SETLKW};
  switch (head.lk.type) {
    case F_RDLCK: lock.lock.type = LockType::kRead; break;
    case F_WRLCK: lock.lock.type = LockType::kWrite; break;
    case F_UNLCK: lock.lock.type = LockType::kUnlock; break;
    default: in.fail(EINVAL);
  }
  if (head.lk.end < head.lk.start || head.lk.start > INT64_MAX) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  if (request.opcode != FUSE_GETLK) {
    co_return errno_of(co_await file_system_.set_lock(request.caller, request.node, lock));
  }
  const auto holder = co_await file_system_.get_lock(request.caller, request.node, lock);
  if (!holder) co_return errno_of(holder.error());
  fuse_lk_out out{};
  out.lk.start = holder->start;
  out.lk.end = std::min<uint64_t>(holder->end, INT64_MAX);
  out.lk.type = holder->type == LockType::kRead    ? F_RDLCK
                : holder->type == LockType::kWrite ? F_WRLCK
                                                   : F_UNLCK;
  out.lk.pid = holder->pid;
  request.reply.put(out);
  co_return 0;
}

asio::awaitable<int> Dispatcher::allocate(Request& request, Arguments in) {
  const auto head = in.take<fuse_fallocate_in>();
  in.check_range(head.offset, head.length);
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await file_system_.allocate(request.caller, request.node, head.fh,
                                                    static_cast<int>(head.mode), head.offset, head.length));
}

asio::awaitable<int> Dispatcher::seek(Request& request, Arguments in) {
  const auto head = in.take<fuse_lseek_in>();
  if (head.whence != SEEK_DATA && head.whence != SEEK_HOLE) in.fail(EINVAL);
  if (in.error() == 0 && head.offset > INT64_MAX) in.fail(ENXIO);
  if (in.error() != 0) co_return in.error();
  const auto found = co_await file_system_.seek(request.caller, request.node, head.fh, head.offset,
                                                head.whence == SEEK_DATA ? SeekTo::kData : SeekTo::kHole);
  if (!found) co_return errno_of(found.error());
  fuse_lseek_out out{};
  out.offset = *found;
  request.reply.put(out);
  co_return 0;
}

asio::awaitable<int> Dispatcher::copy_range(Request& request, Arguments in) {
  const auto head = in.take<fuse_copy_file_range_in>();
  // The answer has 32 bits.
  const uint64_t bytes = std::min<uint64_t>(head.len, UINT32_MAX & ~uint32_t{4095});
  in.check_range(head.off_in, bytes);
  in.check_range(head.off_out, bytes);
  if (head.flags != 0) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const CopyRange range{.from = request.node,
                        .from_handle = head.fh_in,
                        .from_offset = head.off_in,
                        .to = head.nodeid_out,
                        .to_handle = head.fh_out,
                        .to_offset = head.off_out,
                        .bytes = bytes};
  const auto copied = co_await file_system_.copy_range(request.caller, range);
  if (!copied) co_return errno_of(copied.error());
  if (*copied > bytes) co_return EIO;
  fuse_write_out out{};
  out.size = static_cast<uint32_t>(*copied);
  request.reply.put(out);
  co_return 0;
}

}  // namespace kintsugi::mount
