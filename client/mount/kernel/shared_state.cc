#include "client/mount/kernel/shared_state.h"

#include <array>
#include <cerrno>
#include <new>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kintsugi::mount {

namespace {

constexpr uint64_t kMagic = 0x6b696e7473756733;  // changes with the layout
constexpr size_t kHeaderBytes = 64 << 10;

}  // namespace

struct SharedState::Header {
  uint64_t magic;
  std::atomic<uint64_t> entered;
  /// 1 once the fields below are complete: a process may be killed at any time.
  std::atomic<uint32_t> agreed;
  uint32_t minor;
  uint64_t flags;
  uint32_t max_write_bytes;
  uint32_t max_read_bytes;
  uint32_t resend;
  std::array<std::atomic<uint64_t>, kJournalWords> journal;
};

Result<int> SharedState::create(uint64_t room_bytes) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  const int descriptor = ::memfd_create("kintsugi-mount", MFD_CLOEXEC);
  if (descriptor < 0) return status_from_errno(errno, "memfd_create");
  if (::ftruncate(descriptor, static_cast<off_t>(kHeaderBytes + room_bytes)) != 0 ||
      ::pwrite(descriptor, &kMagic, sizeof kMagic, 0) != sizeof kMagic) {
    const Status status = status_from_errno(errno, "make room in a memfd");
    ::close(descriptor);
    return status;
  }
  return descriptor;
}

Result<std::unique_ptr<SharedState>> SharedState::map(int descriptor) {
  struct stat found{};
  if (::fstat(descriptor, &found) != 0) return status_from_errno(errno, "the mount's memfd");
  const auto bytes = static_cast<size_t>(found.st_size);
  if (bytes < kHeaderBytes) return Status{Code::kCorrupt, "the mount's memfd has no header"};
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return status_from_errno(errno, "map the mount's memfd");
  auto* header = std::launder(static_cast<Header*>(memory));
  std::unique_ptr<SharedState> state(new SharedState(descriptor, header, bytes));
  if (header->magic != kMagic) return Status{Code::kCorrupt, "the mount's memfd is of another version"};
  return state;
}

SharedState::SharedState(int descriptor, Header* header, size_t bytes)
    : descriptor_(descriptor),
      header_(header),
      bytes_(bytes),
      room_(reinterpret_cast<std::byte*>(header) + kHeaderBytes, bytes - kHeaderBytes) {}

SharedState::~SharedState() {
  ::munmap(header_, bytes_);
  ::close(descriptor_);
}

std::optional<Negotiated> SharedState::negotiated() const {
  if (header_->agreed.load(std::memory_order_acquire) == 0) return {};
  return Negotiated{.minor = header_->minor,
                    .flags = header_->flags,
                    .max_write_bytes = header_->max_write_bytes,
                    .max_read_bytes = header_->max_read_bytes,
                    .resend = header_->resend != 0};
}

void SharedState::store(const Negotiated& negotiated) {
  header_->minor = negotiated.minor;
  header_->flags = negotiated.flags;
  header_->max_write_bytes = negotiated.max_write_bytes;
  header_->max_read_bytes = negotiated.max_read_bytes;
  header_->resend = negotiated.resend ? 1 : 0;
  header_->agreed.store(1, std::memory_order_release);
}

uint64_t SharedState::enter() {
  return header_->entered.fetch_add(1, std::memory_order_relaxed);
}

std::span<std::atomic<uint64_t>> SharedState::journal() {
  return header_->journal;
}

}  // namespace kintsugi::mount
