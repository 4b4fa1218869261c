/// Helpers that the tests of the metaserver share.
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::metaserver {

/// Removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "kintsugi_metaserver_XXXXXX").string();
    KINTSUGI_ASSERT(::mkdtemp(name.data()));
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kintsugi::metaserver
