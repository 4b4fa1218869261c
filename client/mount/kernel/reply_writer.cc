#include "client/mount/kernel/reply_writer.h"

#include <sys/uio.h>
#include <unistd.h>

#include "common/log/log.h"

namespace kintsugi::mount {

bool ReplyWriter::write(uint64_t unique, int error, const Reply* reply) {
  std::array<iovec, kMaxReadRanges + 3> parts;
  fuse_out_header head{.len = sizeof head, .error = -error, .unique = unique};
  size_t count = 0;
  const auto add = [&](const void* data, size_t bytes) {
    if (bytes == 0 && count > 0) return;
    parts[count++] = {const_cast<void*>(data), bytes};
    head.len += static_cast<uint32_t>(bytes);
  };
  parts[count++] = {&head, sizeof head};
  if (reply != nullptr && error == 0) {
    add(reply->fixed.data(), reply->fixed_bytes);
    add(reply->text.data(), reply->text.size());
    for (const auto& range : reply->data.ranges)
      add(range.data(), range.size());
  }
  ssize_t written;
  do
    written = ::writev(device_, parts.data(), static_cast<int>(count));
  while (written < 0 && errno == EINTR);
  if (written >= 0) return true;
  // ENOENT: the application was killed. ENODEV and so on: unmounted meanwhile.
  if (errno == ENOENT || errno == ENODEV || errno == ECONNABORTED || errno == EPERM) return false;
  log::error("the kernel refused an answer of {} bytes (errno {} to the application): {}", head.len, error,
             std::strerror(errno));
  // Without any answer the application would wait for ever.
  if (error == 0 && reply != nullptr) (void)write(unique, EIO, nullptr);
  return false;
}

bool ReplyWriter::ask_to_resend() {
  const fuse_out_header resend{.len = sizeof resend, .error = kNotifyResend, .unique = 0};
  if (::write(device_, &resend, sizeof resend) >= 0) return true;
  log::warning("the kernel does not send again what the former process left unanswered: {}",
               std::strerror(errno));
  return false;
}

}  // namespace kintsugi::mount
