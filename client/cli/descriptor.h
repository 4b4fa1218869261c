/// The owner of an open file descriptor, which closes it.
#pragma once

#include <utility>

#include "common/base/status.h"

namespace kintsugi::cli {

/// An open file descriptor, closed at the end. Standard input, output and error are left open.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { (void)close(); }
  int get() const { return fd_; }
  /// Closes it and returns the error that closing reported, if any: a write that was delayed may fail only here.
  Status close();

 private:
  int fd_ = -1;
};

}  // namespace kintsugi::cli
