/// One function object out of several, for std::visit.
#pragma once

namespace kintsugi::cli {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace kintsugi::cli
