/// The binary of this process as it can be traced: its sleds in memory, the code that they lead to, who calls whom.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tracing/agent/recording.h"
#include "tracing/repository/call_graph.h"
#include "tracing/repository/recorded_arguments.h"

namespace kintsugi::tracing {

/// Made when it is first asked for; it stays until the process ends, for a thread may be anywhere in it.
class Image {
 public:
  /// kNotSupported: the binary has no sleds, or the kernel cannot do what tracing needs. Asked again, it tries again.
  static Result<const Image*> of_process();

  const ImageSleds& sleds() const { return sleds_; }
  const CallGraph& calls() const { return calls_; }
  std::span<const FunctionStart> starts() const { return starts_; }
  const std::string& path() const { return path_; }
  const std::string& build_id() const { return build_id_; }

  /// The functions that `name` means (functions_named()). kNotFound: there is none.
  Result<std::vector<uint32_t>> functions_named(const std::string& name) const;
  /// By function - 1, which values are recorded: those by which our requests are told apart, and `more`. Functions that the binary does
  /// not have are left out.
  Result<std::vector<uint8_t>> recorded_values(std::span<const RecordedValues> more) const;
  /// The function that begins there. kNotFound: none that has sleds.
  Result<uint32_t> function_at(const void* code) const;

 private:
  Image() = default;
  Status read();
  Status make_stubs(const SledMap& map, uint64_t base);

  ImageSleds sleds_;
  std::vector<uint32_t> first_;
  std::vector<ImageSleds::At> at_;
  CallGraph calls_;
  std::vector<FunctionStart> starts_;
  std::vector<uint8_t> arguments_;  ///< by function - 1: those that are recorded
  std::string path_, build_id_;
};

}  // namespace kintsugi::tracing
