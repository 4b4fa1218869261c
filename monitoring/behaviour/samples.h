/// Executions of one module as columns of numbers: what was put in, and one thing that was observed.
#pragma once

#include <cstddef>
#include <vector>

namespace kintsugi::behaviour {

struct Samples {
  /// Index: input, then execution; each column is as long as `observed`.
  std::vector<std::vector<double>> inputs;
  std::vector<double> observed;

  size_t size() const { return observed.size(); }
  size_t features() const { return inputs.size(); }
  /// The inputs of one execution.
  std::vector<double> row(size_t execution) const {
    std::vector<double> values(inputs.size());
    for (size_t f = 0; f < inputs.size(); ++f)
      values[f] = inputs[f][execution];
    return values;
  }
  /// The executions with these numbers, in their order.
  Samples select(const std::vector<size_t>& executions) const {
    Samples out;
    out.inputs.resize(inputs.size());
    for (size_t f = 0; f < inputs.size(); ++f)
      for (size_t i : executions)
        out.inputs[f].push_back(inputs[f][i]);
    for (size_t i : executions)
      out.observed.push_back(observed[i]);
    return out;
  }
};

}  // namespace kintsugi::behaviour
