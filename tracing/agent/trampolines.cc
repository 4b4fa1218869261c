// The way from a stub to the payload and back, see payload.h.
// The entry and a tail call are called from their sleds and come back; an exit is gone to and returns in place of its function.
// r10 is free at all three. The payload preserves all general registers but r11, which may hold the address of a tail call.
asm(R"(
  .text
  .globl kintsugi_trace_entry, kintsugi_trace_exit, kintsugi_trace_tail
  .type kintsugi_trace_entry, @function
  .type kintsugi_trace_exit, @function
  .type kintsugi_trace_tail, @function
  .p2align 5
kintsugi_trace_entry:
  .cfi_startproc
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  mov %r10d, %edi
  lea 24(%rsp), %rsi
  call kintsugi_trace_entered
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size kintsugi_trace_entry, .-kintsugi_trace_entry
  .p2align 5
kintsugi_trace_tail:
  .cfi_startproc
  push %rdi
  push %rsi
  push %rdx
  push %r11
  .cfi_adjust_cfa_offset 32
  mov %r10d, %edi
  lea 40(%rsp), %rsi
  mov $1, %edx
  call kintsugi_trace_left
  pop %r11
  pop %rdx
  pop %rsi
  pop %rdi
  .cfi_adjust_cfa_offset -32
  ret
  .cfi_endproc
  .size kintsugi_trace_tail, .-kintsugi_trace_tail
  .p2align 5
kintsugi_trace_exit:
  .cfi_startproc
  mov %r10d, %edi
  mov %rsp, %rsi
  push %rdx
  .cfi_adjust_cfa_offset 8
  xor %edx, %edx
  call kintsugi_trace_left
  pop %rdx
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size kintsugi_trace_exit, .-kintsugi_trace_exit
)");
