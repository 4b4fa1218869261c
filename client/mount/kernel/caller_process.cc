#include "client/mount/kernel/caller_process.h"

#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace kintsugi::mount {
namespace {

/// /proc/THREAD/status. A process is in at most 65,536 groups, of up to 11 characters each.
Result<std::string> status_of(uint32_t thread) {
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
  return text;
}

/// The value of one of its lines, if there is such a line.
std::optional<std::string> line_of(const std::string& status, std::string_view name) {
  const size_t at = status.find(fmt::format("\n{}:", name));
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + name.size() + 2;
  return status.substr(begin, status.find('\n', begin) - begin);
}

constexpr uint64_t bit_of(int signal) {
  return uint64_t{1} << (signal - 1);
}

/// Signals that by themselves end nothing.
constexpr uint64_t kHarmless = bit_of(SIGCHLD) | bit_of(SIGCONT) | bit_of(SIGURG) | bit_of(SIGWINCH) |
                               bit_of(SIGSTOP) | bit_of(SIGTSTP) | bit_of(SIGTTIN) | bit_of(SIGTTOU);

}  // namespace

bool was_killed(uint32_t thread) {
  if (thread == 0) return false;
  const auto status = status_of(thread);
  if (!status) return false;
  const auto signals = [&](std::string_view name) -> uint64_t {
    const auto line = line_of(*status, name);
    return line ? std::strtoull(line->c_str(), nullptr, 16) : 0;
  };
  // The kernel makes a SIGKILL of what ends a process, but not when another signal came first that the process handles.
  const uint64_t ends_nothing = kHarmless | signals("SigBlk") | signals("SigIgn") | signals("SigCgt");
  return ((signals("SigPnd") | signals("ShdPnd")) & (bit_of(SIGKILL) | ~ends_nothing)) != 0;
}

Result<std::vector<uint32_t>> groups_of(uint32_t thread) {
  KINTSUGI_ASSIGN(const std::string status, status_of(thread));
  const auto line = line_of(status, "Groups");
  if (!line) return Status{Code::kNotFound, fmt::format("/proc/{}/status has no groups", thread)};
  std::vector<uint32_t> groups;
  const char* at = line->c_str();
  for (char* end = nullptr;; at = end) {
    const unsigned long group = std::strtoul(at, &end, 10);
    if (end == at) return groups;
    groups.push_back(static_cast<uint32_t>(group));
  }
}

}  // namespace kintsugi::mount
