#include "client/mount/kernel/shared_state.h"

#include <array>
#include <cerrno>
#include <new>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/sealed_record.h"

namespace kintsugi::mount {

namespace {

constexpr uint64_t kMagic = 0x6b696e7473756734;  // changes with the layout
constexpr size_t kHeaderBytes = 64 << 10;

}  // namespace

struct SharedState::Agreement {
  uint64_t flags;
  uint32_t minor, max_write_bytes, max_read_bytes, resend;
};

struct SharedState::Header {
  uint64_t magic;
  std::atomic<uint64_t> entered;
  /// 1 once `agreement` is complete: a process may be killed at any time.
  std::atomic<uint32_t> agreed;
  SealedRecord<Agreement> agreement;
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
  if (header->agreed.load(std::memory_order_acquire) != 0 && !header->agreement.whole())
    return Status{Code::kCorrupt, "what was agreed with the kernel is damaged in the mount's memfd"};
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
  const Agreement& agreement = header_->agreement.body;
  return Negotiated{.minor = agreement.minor,
                    .flags = agreement.flags,
                    .max_write_bytes = agreement.max_write_bytes,
                    .max_read_bytes = agreement.max_read_bytes,
                    .resend = agreement.resend != 0};
}

void SharedState::store(const Negotiated& negotiated) {
  header_->agreement.seal({negotiated.flags, negotiated.minor, negotiated.max_write_bytes,
                           negotiated.max_read_bytes, negotiated.resend ? 1u : 0u});
  header_->agreed.store(1, std::memory_order_release);
}

uint64_t SharedState::enter() {
  return header_->entered.fetch_add(1, std::memory_order_relaxed);
}

std::span<std::atomic<uint64_t>> SharedState::journal() {
  return header_->journal;
}

}  // namespace kintsugi::mount
