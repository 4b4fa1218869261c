/// What a run reached: acts that did something, outcomes of operations, and states that the daemons' logs tell of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace kintsugi::simulation {

struct Coverage {
  std::map<std::string, uint64_t> codes;     ///< policies of clusters and directories, by name
  std::map<std::string, uint64_t> acts;      ///< by name: how often each had an effect
  std::map<std::string, uint64_t> outcomes;  ///< "put ok", "read unavailable", ...
  std::map<std::string, uint64_t> states;    ///< lines of logs, without their numbers and names
  double longest_recovery = 0;  ///< seconds of virtual time from the end of faults until all was well

  void merge(const Coverage& other);
};

/// A line of a log without what differs between runs: "chunk #:# on server # is corrupt".
std::string state_of(std::string_view line);

}  // namespace kintsugi::simulation
