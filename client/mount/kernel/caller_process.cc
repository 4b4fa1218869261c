#include "client/mount/kernel/caller_process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace kintsugi::mount {

namespace {

/// The value of one line of /proc/THREAD/status. A process is in at most 65,536 groups, of up to 11 characters each.
Result<std::string> status_line(uint32_t thread, std::string_view name) {
  const int file = ::open(fmt::format("/proc/{}/status", thread).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Status{Code::kNotFound, fmt::format("there is no thread {}", thread)};
  constexpr size_t kStep = 4096, kLimit = 1 << 20;
  std::string text;
  for (ssize_t got = 1; got > 0 && text.size() < kLimit;) {
    const size_t have = text.size();
    text.resize(have + kStep);
    got = ::read(file, text.data() + have, kStep);
    text.resize(have + static_cast<size_t>(got > 0 ? got : 0));
  }
  ::close(file);
  const size_t at = text.find(fmt::format("\n{}:", name));
  if (at == std::string::npos)
    return Status{Code::kNotFound, fmt::format("/proc/{}/status has no {}", thread, name)};
  const size_t begin = at + name.size() + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

bool was_killed(uint32_t thread) {
  if (thread == 0) return false;
  const auto pending = status_line(thread, "SigPnd");
  return pending && (std::strtoull(pending->c_str(), nullptr, 16) >> (SIGKILL - 1) & 1) != 0;
}

Result<std::vector<uint32_t>> groups_of(uint32_t thread) {
  KINTSUGI_ASSIGN(const std::string line, status_line(thread, "Groups"));
  std::vector<uint32_t> groups;
  const char* at = line.c_str();
  for (char* end = nullptr;; at = end) {
    const unsigned long group = std::strtoul(at, &end, 10);
    if (end == at) return groups;
    groups.push_back(static_cast<uint32_t>(group));
  }
}

}  // namespace kintsugi::mount
