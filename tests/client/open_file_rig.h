/// Open files of a fake cluster, and how their contents are compared.
#pragma once

#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "tests/client/fake_cluster.h"

namespace kintsugi::client {

/// A fake cluster with open files.
struct OpenFileRig {
  explicit OpenFileRig(uint64_t seed, FilesOptions options = {},
                       std::unique_ptr<DirtyMemory> memory = nullptr)
      : cluster(seed), files(cluster.open_files(options, std::move(memory))) {}
  ~OpenFileRig() {
    if (files) (void)cluster.run(files->stop());
    files.reset();
  }

  template <class T>
  T run(asio::awaitable<T> task) {
    return cluster.run(std::move(task));
  }
  std::unique_ptr<OpenHandle> open(uint64_t inode) {
    auto opened = run(files->open({}, inode));
    KINTSUGI_ASSERT(opened);
    return std::move(*opened);
  }
  Status write(OpenHandle& handle, uint64_t offset, std::span<const std::byte> bytes) {
    return run(handle.file().write({}, offset, bytes));
  }
  std::vector<std::byte> read(OpenHandle& handle, uint64_t offset, uint64_t length) {
    std::vector<std::byte> bytes(length);
    const auto read = run(handle.file().read({}, offset, bytes));
    EXPECT_TRUE(read) << read.error();
    bytes.resize(read ? *read : 0);
    return bytes;
  }
  void close(std::unique_ptr<OpenHandle>& handle) {
    (void)run(handle->close({}, true));
    handle.reset();
  }

  FakeCluster cluster;
  std::unique_ptr<OpenFiles> files;
};

inline std::vector<std::byte> part(const std::vector<std::byte>& bytes, uint64_t offset, uint64_t length) {
  if (offset >= bytes.size()) return {};
  const auto begin = bytes.begin() + static_cast<ptrdiff_t>(offset);
  return {begin, begin + static_cast<ptrdiff_t>(std::min<uint64_t>(length, bytes.size() - offset))};
}

/// Where and how two contents differ first; empty when they do not.
inline std::string difference(const std::vector<std::byte>& found, const std::vector<std::byte>& expected) {
  if (found.size() != expected.size()) return fmt::format("{} bytes, not {}", found.size(), expected.size());
  const auto at = std::ranges::mismatch(found, expected);
  if (at.in1 == found.end()) return "";
  size_t wrong = 0, zeros = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    wrong += found[i] != expected[i];
    zeros += found[i] != expected[i] && found[i] == std::byte{};
  }
  return fmt::format("{} bytes differ, the first one at {}; {} of them are 0", wrong, at.in1 - found.begin(),
                     zeros);
}

}  // namespace kintsugi::client
