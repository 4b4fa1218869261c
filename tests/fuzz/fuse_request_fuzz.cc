// Requests of a kernel, as the dispatcher of a mount takes them: nothing in them is believed, the file system below is told
// only what its interface promises, and what it gave is either in an answer that the protocol allows or taken back.
#include <climits>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <linux/limits.h>
#include <sys/xattr.h>

#include "client/mount/kernel/directory_buffer.h"
#include "client/mount/kernel/dispatcher.h"
#include "client/mount/kernel/handshake.h"
#include "common/log/log.h"
#include "tests/fuzz/doubtful_file_system.h"
#include "tests/fuzz/input.h"

namespace kintsugi::fuzz {
namespace {

using namespace mount;

constexpr uint32_t kMaxRead = 1 << 17;
constexpr size_t kMaxRequests = 32;
constexpr int kMaxErrno = 511;  // the kernel takes no greater ones

/// What stands in an input before the body of each request; the header is made of it.
struct Spec {
  enum How : uint8_t { kWrongLength = 1, kResent = 2, kExtended = 4 };
  uint8_t opcode = 0;
  uint8_t how = 0;
  uint16_t body_bytes = 0;
};
struct Asked {
  Spec spec;
  std::string body;
};

std::vector<Asked> parse(Input& input) {
  std::vector<Asked> all;
  while (all.size() < kMaxRequests) {
    const Spec spec = input.number<Spec>();
    if (spec.opcode == 0) break;  // also where the input ends
    all.push_back({spec, std::string(input.text(spec.body_bytes))});
  }
  return all;
}

std::string text_of(uint64_t answers, const std::vector<Asked>& all) {
  std::string text(reinterpret_cast<const char*>(&answers), sizeof answers);
  for (Asked asked : all) {
    asked.body.resize(std::min<size_t>(asked.body.size(), UINT16_MAX));
    asked.spec.body_bytes = static_cast<uint16_t>(asked.body.size());
    text.append(reinterpret_cast<const char*>(&asked.spec), sizeof asked.spec).append(asked.body);
  }
  return text;
}

// ---- what the kernel would read

uint32_t size_asked(const Request& request) {
  Arguments in(request.body);
  return request.opcode == FUSE_GETXATTR || request.opcode == FUSE_LISTXATTR
             ? in.take<fuse_getxattr_in>().size
             : in.take<fuse_read_in>().size;
}

void check_listing(const Request& request, const DoubtfulFileSystem& file_system) {
  const bool plus = request.opcode == FUSE_READDIRPLUS;
  const std::string& bytes = request.reply.text;
  require(bytes.size() <= size_asked(request), "a listing fits where it is asked for");
  size_t at = 0, entries = 0;
  for (; at < bytes.size(); ++entries) {
    const size_t head_bytes = plus ? FUSE_NAME_OFFSET_DIRENTPLUS : FUSE_NAME_OFFSET;
    require(bytes.size() - at > head_bytes, "an entry is whole");
    fuse_dirent entry;
    std::memcpy(&entry, bytes.data() + at + head_bytes - FUSE_NAME_OFFSET, FUSE_NAME_OFFSET);
    require(entry.namelen > 0 && entry.namelen <= NAME_MAX, "an entry has a name");
    at += FUSE_DIRENT_ALIGN(head_bytes + entry.namelen);
  }
  require(at == bytes.size(), "entries are whole and aligned");
  require(entries == file_system.entries_taken, "what the file system thinks is listed is");
}

void check_reply(const Request& request, const DoubtfulFileSystem& file_system) {
  const Reply& reply = request.reply;
  size_t read = 0;
  for (const auto& range : reply.data.ranges)
    read += range.size();
  require(reply.data.ranges.size() <= kMaxReadRanges, "an answer can be written at once");
  require(read == 0 || request.opcode == FUSE_READ, "only reads have data");
  switch (request.opcode) {
    case FUSE_READ: require(read <= size_asked(request), "a read has at most what is asked for"); break;
    case FUSE_READDIR:
    case FUSE_READDIRPLUS: check_listing(request, file_system); break;
    case FUSE_GETXATTR:
    case FUSE_LISTXATTR: {
      const uint32_t room = size_asked(request);
      require(reply.fixed_bytes == (room == 0 ? sizeof(fuse_getxattr_out) : 0),
              "a size is told to who asks for it");
      require(room == 0 ? reply.text.empty() : reply.text.size() <= room, "a value fits");
      break;
    }
    case FUSE_READLINK: require(reply.text.size() < PATH_MAX, "a target is a path"); break;
    case FUSE_LOOKUP:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_SYMLINK:
    case FUSE_LINK: require(reply.fixed_bytes == sizeof(fuse_entry_out), "an entry is told"); break;
    case FUSE_CREATE:
    case FUSE_TMPFILE:
      require(reply.fixed_bytes == sizeof(fuse_entry_out) + sizeof(fuse_open_out),
              "an entry and a handle are told");
      break;
    case FUSE_GETATTR:
    case FUSE_SETATTR: require(reply.fixed_bytes == sizeof(fuse_attr_out), "attributes are told"); break;
    default: break;
  }
}

// ---- one after the other

template <class T>
T run(asio::awaitable<T> work) {
  asio::io_context io;
  std::optional<T> result;
  asio::co_spawn(io, std::move(work), [&](const std::exception_ptr& error, T value) {
    if (error) std::rethrow_exception(error);
    result = std::move(value);
  });
  io.run();
  require(result.has_value(), "an operation whose file system answers ends");
  return std::move(*result);
}

asio::awaitable<bool> undo(Dispatcher& dispatcher, Request& request) {
  co_await dispatcher.undo(request);
  co_return true;
}

std::vector<std::byte> bytes_of(const Asked& asked, uint64_t number) {
  fuse_in_header head{};
  head.opcode = asked.spec.opcode;
  head.unique = (number + 1) * 2 | ((asked.spec.how & Spec::kResent) != 0 ? kUniqueResend : 0);
  head.nodeid = number % 5;
  head.total_extlen = (asked.spec.how & Spec::kExtended) != 0 ? asked.spec.how >> 4 : 0;
  head.len = static_cast<uint32_t>(sizeof head + asked.body.size()) +
             ((asked.spec.how & Spec::kWrongLength) != 0 ? 8 : 0);
  // Of exactly this size, so that a sanitizer sees who reads behind it.
  std::vector<std::byte> bytes(sizeof head + asked.body.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, asked.body.data(), asked.body.size());
  return bytes;
}

void serve(Dispatcher& dispatcher, DoubtfulFileSystem& file_system, Request& request,
           std::span<const std::byte> bytes) {
  request.reply.clear();
  request.granted = {};
  request.interrupt = {};
  const int refused = parse_header(bytes, request);
  require(refused >= kNoAnswerPossible && refused <= kMaxErrno, "a header is refused with an errno");
  if (refused != 0) return;
  require(request.body.size() + sizeof(fuse_in_header) <= bytes.size(), "a body lies in what was read");
  if (request.opcode == FUSE_FORGET || request.opcode == FUSE_BATCH_FORGET) return dispatcher.forget(request);
  if (request.opcode == FUSE_INIT) {
    const auto shake = shake_hands(request.body, {});
    if (!shake) return require_one_line(shake.error().message());
    const Negotiated& agreed = shake->negotiated;
    require(shake->again || (agreed.max_write_bytes > 0 && agreed.max_write_bytes <= 1 << 20),
            "writes have a limit");
    return;
  }
  if (request.operation == nullptr) return;
  file_system.begin(request);
  const int error = run(dispatcher.serve(request));
  require(error >= 0 && error <= kMaxErrno, "an operation ends with an errno");
  if (error == 0) check_reply(request, file_system);
  if (error == 0) run(undo(dispatcher, request));
  require(file_system.nothing_granted(), "what was given is told to the kernel or taken back");
}

/// Of a file system that answers too much the log is told.
struct QuietLog {
  QuietLog() {
    log::set_sink([](log::Level, std::string_view) {});
  }
  ~QuietLog() { log::set_sink({}); }
};

void check(std::string_view bytes) {
  const QuietLog quiet;
  Input input(bytes);
  DoubtfulFileSystem file_system(input.number<uint64_t>());
  Dispatcher dispatcher(file_system);
  const uint64_t flags = file_system.chance(2) ? FUSE_SETXATTR_EXT : 0;
  dispatcher.agree({.minor = 40, .flags = flags, .max_write_bytes = 1 << 20, .max_read_bytes = kMaxRead});
  const auto request = std::make_unique<Request>();
  uint64_t number = 0;
  for (const Asked& asked : parse(input))
    serve(dispatcher, file_system, *request, bytes_of(asked, number++));
}

// ---- inputs

template <class Head>
std::string with(const Head& head, std::string_view rest = {}) {
  return std::string(reinterpret_cast<const char*>(&head), sizeof head).append(rest);
}

/// One of each kind, as a kernel would send it.
std::vector<Asked> usual() {
  using namespace std::string_literals;
  using namespace std::string_view_literals;
  std::vector<Asked> all;
  const auto ask = [&all](uint32_t opcode, std::string body) {
    all.push_back({{static_cast<uint8_t>(opcode), 0, 0}, std::move(body)});
  };
  fuse_setattr_in attributes{};
  attributes.valid = FATTR_MODE | FATTR_SIZE | FATTR_MTIME | FATTR_FH;
  attributes.size = 4096;
  fuse_setxattr_in xattr{};
  xattr.size = 5;
  fuse_lk_in lock{};
  lock.lk = {.start = 0, .end = 99, .type = 1, .pid = 7};
  fuse_init_in init{
      .major = 7, .minor = 40, .max_readahead = 1 << 20, .flags = ~0u, .flags2 = ~0u, .unused = {}};
  ask(FUSE_INIT, with(init));
  ask(FUSE_LOOKUP, "name\0"s);
  ask(FUSE_GETATTR, with(fuse_getattr_in{.getattr_flags = FUSE_GETATTR_FH, .dummy = 0, .fh = 1}));
  ask(FUSE_SETATTR, with(attributes));
  ask(FUSE_READLINK, "");
  ask(FUSE_SYMLINK, "name\0target\0"s);
  ask(FUSE_MKNOD, with(fuse_mknod_in{.mode = 0100644, .rdev = 0, .umask = 022, .padding = 0}, "name\0"sv));
  ask(FUSE_MKDIR, with(fuse_mkdir_in{.mode = 0755, .umask = 022}, "name\0"sv));
  ask(FUSE_UNLINK, "name\0"s);
  ask(FUSE_RMDIR, "name\0"s);
  ask(FUSE_RENAME, with(fuse_rename_in{.newdir = 2}, "name\0other\0"sv));
  ask(FUSE_RENAME2, with(fuse_rename2_in{.newdir = 2, .flags = 1, .padding = 0}, "name\0other\0"sv));
  ask(FUSE_LINK, with(fuse_link_in{.oldnodeid = 3}, "name\0"sv));
  ask(FUSE_OPEN, with(fuse_open_in{.flags = 2, .open_flags = 1}));
  ask(FUSE_OPENDIR, with(fuse_open_in{}));
  ask(FUSE_CREATE, with(fuse_create_in{.flags = 2, .mode = 0644, .umask = 022, .open_flags = 0}, "name\0"sv));
  ask(FUSE_TMPFILE, with(fuse_create_in{.flags = 2, .mode = 0644, .umask = 022, .open_flags = 0}, "/\0"sv));
  ask(FUSE_READ, with(fuse_read_in{.fh = 1, .offset = 4096, .size = 8192}));
  ask(FUSE_WRITE, with(fuse_write_in{.fh = 1, .offset = 4096, .size = 5}, "bytes"));
  ask(FUSE_STATFS, "");
  ask(FUSE_RELEASE, with(fuse_release_in{.fh = 1, .flags = 2, .release_flags = 1, .lock_owner = 9}));
  ask(FUSE_RELEASEDIR, with(fuse_release_in{}));
  ask(FUSE_FSYNC, with(fuse_fsync_in{.fh = 1, .fsync_flags = 1, .padding = 0}));
  ask(FUSE_FSYNCDIR, with(fuse_fsync_in{}));
  ask(FUSE_FLUSH, with(fuse_flush_in{.fh = 1, .unused = 0, .padding = 0, .lock_owner = 9}));
  ask(FUSE_SETXATTR, with(xattr, "user.name\0value"sv));
  ask(FUSE_GETXATTR, with(fuse_getxattr_in{.size = 256, .padding = 0}, "user.name\0"sv));
  ask(FUSE_LISTXATTR, with(fuse_getxattr_in{.size = 4096, .padding = 0}));
  ask(FUSE_REMOVEXATTR, "user.name\0"s);
  ask(FUSE_READDIR, with(fuse_read_in{.fh = 1, .offset = 0, .size = 4096}));
  ask(FUSE_READDIRPLUS, with(fuse_read_in{.fh = 1, .offset = 7, .size = 4096}));
  for (const uint32_t opcode : {FUSE_GETLK, FUSE_SETLK, FUSE_SETLKW})
    ask(opcode, with(lock));
  ask(FUSE_FALLOCATE, with(fuse_fallocate_in{.fh = 1, .offset = 0, .length = 4096, .mode = 3, .padding = 0}));
  ask(FUSE_LSEEK, with(fuse_lseek_in{.fh = 1, .offset = 9, .whence = 3, .padding = 0}));
  ask(FUSE_COPY_FILE_RANGE,
      with(fuse_copy_file_range_in{
          .fh_in = 1, .off_in = 0, .nodeid_out = 2, .fh_out = 2, .off_out = 9, .len = 99}));
  ask(FUSE_FORGET, with(fuse_forget_in{.nlookup = 2}));
  ask(FUSE_BATCH_FORGET, with(fuse_batch_forget_in{.count = 2, .dummy = 0},
                              with(fuse_forget_one{.nodeid = 2, .nlookup = 1},
                                   with(fuse_forget_one{.nodeid = 3, .nlookup = 1}))));
  return all;
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  const std::vector<Asked> each = usual();
  for (size_t i = 0; i < each.size(); ++i)
    all.push_back(text_of(i * 0x9e3779b97f4a7c15, {each[i]}));
  all.push_back(text_of(1, {each.begin(), each.begin() + kMaxRequests}));
  return all;
}

void change_body(std::string& body, std::mt19937_64& random) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   255,
                                   256,
                                   4095,
                                   4096,
                                   65535,
                                   65536,
                                   kMaxRead,
                                   kMaxRead + 1,
                                   INT32_MAX,
                                   UINT32_MAX,
                                   INT64_MAX,
                                   uint64_t{1} << 63,
                                   UINT64_MAX - 4095,
                                   UINT64_MAX};
  const uint64_t number = kNumbers[random() % std::size(kNumbers)];
  const size_t bytes = random() % 2 == 0 ? sizeof number : sizeof(uint32_t);
  switch (random() % 5) {
    case 0: body.append(random() % 300, "n/.\0"[random() % 4]).push_back(0); break;
    case 1: body.resize(random() % (body.size() + 1)); break;
    case 2: body += body.substr(random() % (body.size() + 1)); break;
    default:
      if (body.size() >= bytes)
        std::memcpy(body.data() + random() % (body.size() / 4 - bytes / 4 + 1) * 4, &number, bytes);
  }
}

void mutate(std::string& bytes, std::mt19937_64& random) {
  Input input(bytes);
  uint64_t answers = input.number<uint64_t>();
  std::vector<Asked> all = parse(input);
  const std::vector<Asked> others = usual();
  if (all.empty()) all.push_back(others[random() % others.size()]);
  Asked& one = all[random() % all.size()];
  switch (random() % 8) {
    case 0: answers = random(); break;
    case 1: one.spec.opcode = static_cast<uint8_t>(1 + random() % 54); break;
    case 2: one.spec.how = static_cast<uint8_t>(random()); break;
    case 3:
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(random() % all.size()),
                 others[random() % others.size()]);
      break;
    case 4: all.erase(all.begin() + static_cast<std::ptrdiff_t>(random() % all.size())); break;
    default: change_body(one.body, random); break;
  }
  bytes = text_of(answers, all);
}

const Registration registration{{"fuse_request", seeds, check, mutate}};

}  // namespace
}  // namespace kintsugi::fuzz
