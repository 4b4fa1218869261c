/// A region of code whose executions are watched, and where they ran.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kintsugi::behaviour {

/// Where executions ran. `name` as people know it.
struct Origin {
  std::string name;
  uint64_t server_id = 0, process = 0;
};

/// A region of code in one kind of process.
struct Module {
  std::string process_kind;
  uint64_t role_path = 0;
  std::string region;  ///< calling context, outermost first
  std::string file, function;
  uint32_t line = 0;
  std::vector<std::string> inputs, outputs;
};

/// The name of an observation of the module, for people: of the time that it takes itself, or of an output.
inline std::string observation_name(const Module& module, size_t observation) {
  return observation == 0 ? "self time" : module.outputs[observation - 1];
}

}  // namespace kintsugi::behaviour
