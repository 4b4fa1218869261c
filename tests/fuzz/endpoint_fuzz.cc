// Addresses: people write them, and trees carry them.
#include "common/runtime/network.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using runtime::Endpoint;

std::vector<std::string> seeds() {
  return {"10.0.0.1:7000", "[::1]:65535", "[fe80::1%eth0]:1", "storage-7.example.org:0", "host", ":1", "[]:1",
          "[a]:1",         "h:01"};
}

void check(std::string_view input) {
  const auto endpoint = Endpoint::parse(input);
  if (!endpoint) {
    require(endpoint.error().code() == Code::kInvalidArgument, "what is no address is an invalid argument");
    require_one_line(endpoint.error().message());
    return;
  }
  const auto again = Endpoint::parse(endpoint->to_string());
  require(again && *again == *endpoint, "an address is parsed as it was printed");
}

const Registration registration{{"endpoint", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
