#include "monitoring/metrics/blacksheep/resource.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace kintsugi::blacksheep {

Resource resource_of(const std::string& metric) {
  constexpr std::array<std::string_view, 11> kMemory{"minflt",
                                                     "majflt",
                                                     "vsize",
                                                     "rss",
                                                     "RssAnon",
                                                     "VmData",
                                                     "VmStk",
                                                     "VmSwap",
                                                     "page_faults_user",
                                                     "page_faults_kernel",
                                                     "tcp_mem"};
  constexpr std::array<std::string_view, 3> kDisk{"read_bytes", "write_bytes", "cancelled_write_bytes"};
  constexpr std::array<std::string_view, 9> kNetwork{"rx_bytes",    "tx_bytes",       "rx_packets",
                                                     "tx_packets",  "TcpRetransSegs", "TcpCurrEstab",
                                                     "TCPTimeouts", "ListenDrops",    "sockets_inuse"};
  if (std::ranges::find(kMemory, metric) != kMemory.end()) return Resource::kMemory;
  if (std::ranges::find(kDisk, metric) != kDisk.end()) return Resource::kDisk;
  if (std::ranges::find(kNetwork, metric) != kNetwork.end()) return Resource::kNetwork;
  return metric == "fds" ? Resource::kDescriptors : Resource::kProcessor;
}

const char* name_of(Resource resource) {
  switch (resource) {
    case Resource::kProcessor: return "processor";
    case Resource::kMemory: return "memory";
    case Resource::kDisk: return "disk";
    case Resource::kNetwork: return "network";
    case Resource::kDescriptors: return "descriptors";
  }
  return "";
}

}  // namespace kintsugi::blacksheep
