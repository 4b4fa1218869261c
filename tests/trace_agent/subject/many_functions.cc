// 11,000 functions, as many as the text's largest program has: what it takes to patch all of them at once.
namespace kintsugi::subject {
namespace {

volatile int sink = 0;

}  // namespace

// clang-format off
#define KINTSUGI_ONE(n) \
  void many_##n(int a);  \
  void many_##n(int a) { \
    sink = a;            \
  }                      \
  static_assert(true)
#define KINTSUGI_TEN(n) \
  KINTSUGI_ONE(n##0); \
  KINTSUGI_ONE(n##1); \
  KINTSUGI_ONE(n##2); \
  KINTSUGI_ONE(n##3); \
  KINTSUGI_ONE(n##4); \
  KINTSUGI_ONE(n##5); \
  KINTSUGI_ONE(n##6); \
  KINTSUGI_ONE(n##7); \
  KINTSUGI_ONE(n##8); \
  KINTSUGI_ONE(n##9)
#define KINTSUGI_HUNDRED(n) \
  KINTSUGI_TEN(n##0); \
  KINTSUGI_TEN(n##1); \
  KINTSUGI_TEN(n##2); \
  KINTSUGI_TEN(n##3); \
  KINTSUGI_TEN(n##4); \
  KINTSUGI_TEN(n##5); \
  KINTSUGI_TEN(n##6); \
  KINTSUGI_TEN(n##7); \
  KINTSUGI_TEN(n##8); \
  KINTSUGI_TEN(n##9)
#define KINTSUGI_THOUSAND(n) \
  KINTSUGI_HUNDRED(n##0); \
  KINTSUGI_HUNDRED(n##1); \
  KINTSUGI_HUNDRED(n##2); \
  KINTSUGI_HUNDRED(n##3); \
  KINTSUGI_HUNDRED(n##4); \
  KINTSUGI_HUNDRED(n##5); \
  KINTSUGI_HUNDRED(n##6); \
  KINTSUGI_HUNDRED(n##7); \
  KINTSUGI_HUNDRED(n##8); \
  KINTSUGI_HUNDRED(n##9)
// clang-format on

KINTSUGI_THOUSAND(a);
KINTSUGI_THOUSAND(b);
KINTSUGI_THOUSAND(c);
KINTSUGI_THOUSAND(d);
KINTSUGI_THOUSAND(e);
KINTSUGI_THOUSAND(f);
KINTSUGI_THOUSAND(g);
KINTSUGI_THOUSAND(h);
KINTSUGI_THOUSAND(i);
KINTSUGI_THOUSAND(j);
KINTSUGI_THOUSAND(k);

/// Has the linker take this file.
void link_many_functions();
void link_many_functions() {}

}  // namespace kintsugi::subject
