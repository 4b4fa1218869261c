#include "tests/mount/mounted.h"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace kintsugi::mount {

std::optional<std::string> why_no_mounts() {
  static const std::optional<std::string> why = []() -> std::optional<std::string> {
    if (::geteuid() != 0) return "skipped: mounting in tests needs root";
    const ScratchDirectory scratch;
    auto device = mount_at(scratch.path(), {});
    if (!device) return "skipped: " + device.error().to_string();
    (void)unmount(scratch.path(), true);
    ::close(*device);
    return {};
  }();
  return why;
}

ScratchDirectory::ScratchDirectory(const std::string& below) {
  path_ = below + "/kintsugi_mount_XXXXXX";
  KINTSUGI_ASSERT(::mkdtemp(path_.data()) != nullptr);
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  // If something is still mounted there, nothing in it is touched.
  if (mounted_device(path_)) (void)unmount(path_, true);
  std::filesystem::remove_all(path_, ignored);
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, std::string_view contents) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  ASSERT_GE(file, 0) << path;
  ASSERT_EQ(::write(file, contents.data(), contents.size()), static_cast<ssize_t>(contents.size()));
  ASSERT_EQ(::close(file), 0);
}

}  // namespace kintsugi::mount
