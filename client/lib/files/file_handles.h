/// The handles by which one file is open, and the write errors that each of them must still be told.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"

namespace kintsugi::client {

/// Each handle is told once of the errors that happened while it was open: it compares their count with what it saw.
class FileHandles {
 public:
  bool any() const { return open_ > 0; }
  void opened() { ++open_; }
  void closed() { --open_; }

  void record_error(const Status& status) {
    ++errors_;
    last_error_ = status;
  }
  uint64_t errors() const { return errors_; }
  const Status& last_error() const { return last_error_; }

 private:
  size_t open_ = 0;
  uint64_t errors_ = 0;
  Status last_error_;
};

}  // namespace kintsugi::client
