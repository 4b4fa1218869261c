#include "client/mount/kernel/handshake.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace kintsugi::mount {

namespace {

// Not among them: FUSE_WRITEBACK_CACHE (write-back is ours), FUSE_EXPLICIT_INVAL_DATA (pages are dropped when size or
// time of a file turn out to be others, which the kernel sees by itself), FUSE_EXPORT_SUPPORT and the splice flags.
constexpr uint64_t kWanted =
    FUSE_ASYNC_READ | FUSE_POSIX_LOCKS | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES | FUSE_DONT_MASK |
    FUSE_FLOCK_LOCKS | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS |
    FUSE_POSIX_ACL | FUSE_ABORT_ERROR | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS | FUSE_AUTO_INVAL_DATA |
    FUSE_HANDLE_KILLPRIV_V2 | FUSE_SETXATTR_EXT | FUSE_INIT_EXT | FUSE_HAS_EXPIRE_ONLY | kCreateSuppGroup |
    kDirectIoAllowMmap | kNoExportSupport | kHasResend;

constexpr size_t kShortInit = 16;  // size of INIT without FUSE_INIT_EXT
constexpr uint32_t kAnnouncedPage = 4096;

}  // namespace

Result<Handshake> shake_hands(std::span<const std::byte> body, const HandshakeOptions& options) {
  if (body.size() < kShortInit)
    return Status{Code::kInvalidArgument, "the kernel's first message is too short"};
  fuse_init_in in{};
  std::memcpy(&in, body.data(), std::min(body.size(), sizeof in));
  Handshake shake;
  shake.answer.major = FUSE_KERNEL_VERSION;
  shake.answer.minor = std::min(in.minor, kProtocolMinor);
  if (in.major > FUSE_KERNEL_VERSION) {
    shake.answer.minor = kProtocolMinor;
    shake.again = true;
    return shake;
  }
  if (in.major < FUSE_KERNEL_VERSION || in.minor < kOldestMinor) {
    return Status{Code::kNotSupported,
                  fmt::format("the kernel speaks FUSE {}.{}, at least 7.{} is needed (Linux 5.4)", in.major,
                              in.minor, kOldestMinor)};
  }
  uint64_t offered = in.flags;
  if ((in.flags & FUSE_INIT_EXT) != 0 && body.size() >= sizeof in) offered |= uint64_t{in.flags2} << 32;
  const uint64_t agreed = offered & kWanted;
  const uint32_t pages = std::max(options.max_write_bytes / kAnnouncedPage, 1u);
  // The kernel takes the smaller of this and its setting, which may have been raised since it sent what it had.
  shake.answer.max_readahead = options.max_readahead_bytes;
  shake.answer.flags = static_cast<uint32_t>(agreed);
  shake.answer.flags2 = static_cast<uint32_t>(agreed >> 32);
  shake.answer.max_background = options.max_background;
  shake.answer.congestion_threshold = static_cast<uint16_t>(options.max_background * 3 / 4);
  shake.answer.max_write = pages * kAnnouncedPage;
  shake.answer.time_gran = 1;
  shake.answer.max_pages = static_cast<uint16_t>(pages);
  shake.negotiated = {.minor = shake.answer.minor,
                      .flags = agreed,
                      .max_write_bytes = shake.answer.max_write,
                      .max_read_bytes = shake.answer.max_write,
                      .resend = (agreed & kHasResend) != 0};
  return shake;
}

}  // namespace kintsugi::mount
