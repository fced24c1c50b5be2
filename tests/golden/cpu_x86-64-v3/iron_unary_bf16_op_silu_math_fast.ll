target triple = "x86_64-unknown-linux-gnu"
define void @iron_unary_bf16_op_silu_math_fast(ptr noalias %args, i64 %first, i64 %end) "no-builtins" {
entry:
  %cell3 = alloca i64, align 64
  %at0 = getelementptr i64, ptr %args, i64 0
  %arg0 = load ptr, ptr %at0, align 8
  %at1 = getelementptr i64, ptr %args, i64 1
  %arg1 = load ptr, ptr %at1, align 8
  %at2 = getelementptr i64, ptr %args, i64 2
  %arg2 = load float, ptr %at2, align 8
  %at3 = getelementptr i64, ptr %args, i64 3
  %arg3 = load i32, ptr %at3, align 8
  %at4 = getelementptr i64, ptr %args, i64 4
  %extent0 = load i64, ptr %at4, align 8
  %at5 = getelementptr i64, ptr %args, i64 5
  %streams = load i64, ptr %at5, align 8
  %number_cell = alloca i64
  store i64 %first, ptr %number_cell
  %large = icmp ne i64 %streams, 0
  %begins0 = ptrtoint ptr %arg1 to i64
  %beyond0 = and i64 %begins0, 63
  %on_line0 = icmp eq i64 %beyond0, 0
  %whole0 = and i1 %large, %on_line0
  %share_bits = select i1 %whole0, i64 2, i64 0
  %shares = shl i64 1, %share_bits
  %last_share = sub i64 %shares, 1
  %count = sub i64 %end, %first
  %share = lshr i64 %count, %share_bits
  %shared = shl i64 %share, %share_bits
  br label %group_loop
group_loop:
  %number = load i64, ptr %number_cell
  %more = icmp ult i64 %number, %end
  br i1 %more, label %group_body, label %exit
group_body:
  %turn = sub i64 %number, %first
  %which = and i64 %turn, %last_share
  %within = lshr i64 %turn, %share_bits
  %before = mul i64 %which, %share
  %apart = add i64 %before, %within
  %dealt = icmp ult i64 %turn, %shared
  %place = select i1 %dealt, i64 %apart, i64 %turn
  %group0 = add i64 %first, %place
  %v1 = trunc i64 %group0 to i32
  %v2 = mul i32 %v1, 256
  store i64 0, ptr %cell3
  br label %piece4
piece4:
  %v6 = load i64, ptr %cell3
  %v7 = mul i64 %v6, 32
  %v8 = trunc nuw i64 %v7 to i32
  %v9 = insertelement <32 x i32> poison, i32 %v8, i64 0
  %v10 = shufflevector <32 x i32> %v9, <32 x i32> poison, <32 x i32> zeroinitializer
  %v11 = add <32 x i32> %v10, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v12 = insertelement <32 x i32> poison, i32 %v2, i64 0
  %v13 = shufflevector <32 x i32> %v12, <32 x i32> poison, <32 x i32> zeroinitializer
  %v14 = add <32 x i32> %v13, %v11
  %v15 = insertelement <32 x i32> poison, i32 %arg3, i64 0
  %v16 = shufflevector <32 x i32> %v15, <32 x i32> poison, <32 x i32> zeroinitializer
  %v17 = icmp slt <32 x i32> %v14, %v16
  %v21 = mul i64 %v6, 32
  %v22 = trunc nuw i64 %v21 to i32
  %v23 = add i32 %v2, %v22
  %v24 = sext i32 %v23 to i64
  %v25 = sext i32 %arg3 to i64
  %v26 = add i64 %v24, 31
  %v27 = icmp slt i64 %v26, %v25
  br i1 %v27, label %full19, label %partial20
full19:
  %v28 = sext i32 %v23 to i64
  %v29 = getelementptr i16, ptr %arg0, i64 %v28
  %v30 = load <32 x i16>, ptr %v29, align 2
  %v31 = getelementptr i8, ptr %v29, i64 2048
  call void @llvm.prefetch.p0(ptr %v31, i32 0, i32 3, i32 1)
  %v32 = zext <32 x i16> %v30 to <32 x i32>
  %v33 = shl <32 x i32> %v32, splat (i32 16)
  %v34 = bitcast <32 x i32> %v33 to <32 x float>
  %v35 = fcmp ugt <32 x float> %v34, splat (float 0xC05A000000000000)
  %v36 = select <32 x i1> %v35, <32 x float> %v34, <32 x float> splat (float 0xC05A000000000000)
  %v37 = fmul <32 x float> %v34, splat (float 0xBFF7154760000000)
  %v38 = fcmp ugt <32 x float> %v37, splat (float 0xC05F800000000000)
  %v39 = select <32 x i1> %v38, <32 x float> %v37, <32 x float> splat (float 0xC05F800000000000)
  %v40 = fcmp ult <32 x float> %v39, splat (float 0x4060000000000000)
  %v41 = select <32 x i1> %v40, <32 x float> %v39, <32 x float> splat (float 0x4060000000000000)
  %v42 = fadd <32 x float> %v41, splat (float 0x4168000000000000)
  %v43 = fsub <32 x float> %v42, splat (float 0x4168000000000000)
  %v44 = fsub <32 x float> %v41, %v43
  %v45 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F65F77960000000), <32 x float> %v44, <32 x float> splat (float 0x3F93CEE7A0000000))
  %v46 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v45, <32 x float> %v44, <32 x float> splat (float 0x3FBC6AE640000000))
  %v47 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v46, <32 x float> %v44, <32 x float> splat (float 0x3FDEBF9B00000000))
  %v48 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v47, <32 x float> %v44, <32 x float> splat (float 0x3FF62E4320000000))
  %v49 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v44, <32 x float> %v48, <32 x float> splat (float 0x4000000000000000))
  %v50 = bitcast <32 x float> %v42 to <32 x i32>
  %v51 = sub <32 x i32> %v50, splat (i32 1)
  %v52 = shl <32 x i32> %v51, splat (i32 23)
  %v53 = add <32 x i32> %v52, splat (i32 1065353216)
  %v54 = bitcast <32 x i32> %v53 to <32 x float>
  %v55 = fmul <32 x float> %v49, %v54
  %v56 = fadd <32 x float> splat (float 0x3FF0000000000000), %v55
  %v57 = fdiv <32 x float> splat (float 0x3FF0000000000000), %v56
  %v58 = fmul <32 x float> %v36, %v57
  %v59 = bitcast <32 x float> %v58 to <32 x i32>
  %v60 = lshr <32 x i32> %v59, splat (i32 16)
  %v61 = and <32 x i32> %v60, splat (i32 1)
  %v62 = add <32 x i32> %v61, splat (i32 32767)
  %v63 = add <32 x i32> %v59, %v62
  %v64 = lshr <32 x i32> %v63, splat (i32 16)
  %v65 = fcmp uno <32 x float> %v58, %v58
  %v66 = select <32 x i1> %v65, <32 x i32> splat (i32 32704), <32 x i32> %v64
  %v67 = trunc <32 x i32> %v66 to <32 x i16>
  %v68 = sext i32 %v23 to i64
  %v69 = getelementptr i16, ptr %arg1, i64 %v68
  %v70 = ptrtoint ptr %v69 to i64
  %v71 = icmp ne i64 %streams, 0
  %v73 = and i64 %v70, 63
  %v74 = icmp eq i64 %v73, 0
  %v77 = and i1 %v71, %v74
  br i1 %v77, label %past75, label %through76
past75:
  %v78 = sub i64 %streams, 1
  %v79 = trunc i64 %v78 to i32
  %v80 = bitcast <32 x i16> %v67 to <16 x i32>
  %v81 = insertelement <16 x i32> poison, i32 %v79, i64 0
  %v82 = shufflevector <16 x i32> %v81, <16 x i32> poison, <16 x i32> zeroinitializer
  %v83 = xor <16 x i32> %v80, %v82
  store <16 x i32> %v83, ptr %v69, align 64, !nontemporal !0
  br label %stored72
through76:
  %v84 = and i64 %v70, 15
  %v85 = icmp eq i64 %v84, 0
  %v88 = and i1 %v71, %v85
  br i1 %v88, label %past86, label %through87
past86:
  %v89 = sub i64 %streams, 1
  %v90 = trunc i64 %v89 to i32
  %v91 = bitcast <32 x i16> %v67 to <16 x i32>
  %v92 = insertelement <16 x i32> poison, i32 %v90, i64 0
  %v93 = shufflevector <16 x i32> %v92, <16 x i32> poison, <16 x i32> zeroinitializer
  %v94 = xor <16 x i32> %v91, %v93
  store <16 x i32> %v94, ptr %v69, align 16, !nontemporal !0
  br label %stored72
through87:
  store <32 x i16> %v67, ptr %v69, align 2
  br label %stored72
stored72:
  br label %end18
partial20:
  %v97 = bitcast <32 x i1> %v17 to i32
  %v98 = icmp ne i32 %v97, 0
  br i1 %v98, label %some95, label %none96
some95:
  %v99 = sext i32 %v23 to i64
  %v100 = getelementptr i16, ptr %arg0, i64 %v99
  %v101 = call <32 x i16> @llvm.masked.load.v32i16.p0(ptr align 2 %v100, <32 x i1> %v17, <32 x i16> zeroinitializer)
  %v102 = zext <32 x i16> %v101 to <32 x i32>
  %v103 = shl <32 x i32> %v102, splat (i32 16)
  %v104 = bitcast <32 x i32> %v103 to <32 x float>
  %v105 = fcmp ugt <32 x float> %v104, splat (float 0xC05A000000000000)
  %v106 = select <32 x i1> %v105, <32 x float> %v104, <32 x float> splat (float 0xC05A000000000000)
  %v107 = fmul <32 x float> %v104, splat (float 0xBFF7154760000000)
  %v108 = fcmp ugt <32 x float> %v107, splat (float 0xC05F800000000000)
  %v109 = select <32 x i1> %v108, <32 x float> %v107, <32 x float> splat (float 0xC05F800000000000)
  %v110 = fcmp ult <32 x float> %v109, splat (float 0x4060000000000000)
  %v111 = select <32 x i1> %v110, <32 x float> %v109, <32 x float> splat (float 0x4060000000000000)
  %v112 = fadd <32 x float> %v111, splat (float 0x4168000000000000)
  %v113 = fsub <32 x float> %v112, splat (float 0x4168000000000000)
  %v114 = fsub <32 x float> %v111, %v113
  %v115 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F65F77960000000), <32 x float> %v114, <32 x float> splat (float 0x3F93CEE7A0000000))
  %v116 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v115, <32 x float> %v114, <32 x float> splat (float 0x3FBC6AE640000000))
  %v117 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v116, <32 x float> %v114, <32 x float> splat (float 0x3FDEBF9B00000000))
  %v118 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v117, <32 x float> %v114, <32 x float> splat (float 0x3FF62E4320000000))
  %v119 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v114, <32 x float> %v118, <32 x float> splat (float 0x4000000000000000))
  %v120 = bitcast <32 x float> %v112 to <32 x i32>
  %v121 = sub <32 x i32> %v120, splat (i32 1)
  %v122 = shl <32 x i32> %v121, splat (i32 23)
  %v123 = add <32 x i32> %v122, splat (i32 1065353216)
  %v124 = bitcast <32 x i32> %v123 to <32 x float>
  %v125 = fmul <32 x float> %v119, %v124
  %v126 = fadd <32 x float> splat (float 0x3FF0000000000000), %v125
  %v127 = fdiv <32 x float> splat (float 0x3FF0000000000000), %v126
  %v128 = fmul <32 x float> %v106, %v127
  %v129 = bitcast <32 x float> %v128 to <32 x i32>
  %v130 = lshr <32 x i32> %v129, splat (i32 16)
  %v131 = and <32 x i32> %v130, splat (i32 1)
  %v132 = add <32 x i32> %v131, splat (i32 32767)
  %v133 = add <32 x i32> %v129, %v132
  %v134 = lshr <32 x i32> %v133, splat (i32 16)
  %v135 = fcmp uno <32 x float> %v128, %v128
  %v136 = select <32 x i1> %v135, <32 x i32> splat (i32 32704), <32 x i32> %v134
  %v137 = trunc <32 x i32> %v136 to <32 x i16>
  %v138 = sext i32 %v23 to i64
  %v139 = getelementptr i16, ptr %arg1, i64 %v138
  call void @llvm.masked.store.v32i16.p0(<32 x i16> %v137, ptr align 2 %v139, <32 x i1> %v17)
  br label %none96
none96:
  br label %end18
end18:
  %v140 = add nuw i64 %v6, 1
  store i64 %v140, ptr %cell3
  %v141 = icmp ult i64 %v140, 8
  br i1 %v141, label %piece4, label %piece_end5
piece_end5:
  %next_number = add i64 %number, 1
  store i64 %next_number, ptr %number_cell
  br label %group_loop, !llvm.loop !1
exit:
  %streamed = icmp ne i64 %streams, 0
  br i1 %streamed, label %fence, label %return
fence:
  call void @llvm.x86.sse.sfence()
  br label %return
return:
  ret void
}
declare <32 x float> @llvm.fma.v32f32(<32 x float>, <32 x float>, <32 x float>)
declare <32 x i16> @llvm.masked.load.v32i16.p0(ptr, <32 x i1>, <32 x i16>)
declare void @llvm.masked.store.v32i16.p0(<32 x i16>, ptr, <32 x i1>)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @llvm.x86.sse.sfence()
!0 = !{i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
