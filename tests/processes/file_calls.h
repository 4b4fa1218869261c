/// Short forms of system calls on files, for tests of mounts.
#pragma once

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace kintsugi::processes {

inline std::string random_bytes(std::mt19937_64& dice, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text)
    c = static_cast<char>(dice());
  return text;
}

/// 0, or the errno.
inline int code(int64_t result) {
  return result < 0 ? errno : 0;
}

inline bool write_all(int file, const std::string& bytes, off_t offset) {
  return ::pwrite(file, bytes.data(), bytes.size(), offset) == static_cast<ssize_t>(bytes.size());
}

inline std::string contents(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::string("cannot be opened: ") + std::strerror(errno);
  std::string bytes;
  char buffer[65536];
  ssize_t got;
  while ((got = ::read(file, buffer, sizeof buffer)) > 0)
    bytes.append(buffer, static_cast<size_t>(got));
  if (got < 0) bytes = std::string("cannot be read: ") + std::strerror(errno);
  ::close(file);
  return bytes;
}

}  // namespace kintsugi::processes
