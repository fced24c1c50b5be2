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
  %group_cell0 = alloca i64
  store i64 %first, ptr %group_cell0
  br label %group_loop
group_loop:
  %number = load i64, ptr %number_cell
  %more = icmp ult i64 %number, %end
  br i1 %more, label %group_body, label %exit
group_body:
  %group0 = load i64, ptr %group_cell0
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
  %v31 = zext <32 x i16> %v30 to <32 x i32>
  %v32 = shl <32 x i32> %v31, splat (i32 16)
  %v33 = bitcast <32 x i32> %v32 to <32 x float>
  %v34 = fcmp ugt <32 x float> %v33, splat (float 0xC05A000000000000)
  %v35 = select <32 x i1> %v34, <32 x float> %v33, <32 x float> splat (float 0xC05A000000000000)
  %v36 = fmul <32 x float> %v33, splat (float 0xBFF7154760000000)
  %v37 = fcmp ugt <32 x float> %v36, splat (float 0xC05F800000000000)
  %v38 = select <32 x i1> %v37, <32 x float> %v36, <32 x float> splat (float 0xC05F800000000000)
  %v39 = fcmp ult <32 x float> %v38, splat (float 0x4060000000000000)
  %v40 = select <32 x i1> %v39, <32 x float> %v38, <32 x float> splat (float 0x4060000000000000)
  %v41 = fadd <32 x float> %v40, splat (float 0x4168000000000000)
  %v42 = fsub <32 x float> %v41, splat (float 0x4168000000000000)
  %v43 = fsub <32 x float> %v40, %v42
  %v44 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F65F77960000000), <32 x float> %v43, <32 x float> splat (float 0x3F93CEE7A0000000))
  %v45 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v44, <32 x float> %v43, <32 x float> splat (float 0x3FBC6AE640000000))
  %v46 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v45, <32 x float> %v43, <32 x float> splat (float 0x3FDEBF9B00000000))
  %v47 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v46, <32 x float> %v43, <32 x float> splat (float 0x3FF62E4320000000))
  %v48 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v43, <32 x float> %v47, <32 x float> splat (float 0x4000000000000000))
  %v49 = bitcast <32 x float> %v41 to <32 x i32>
  %v50 = sub <32 x i32> %v49, splat (i32 1)
  %v51 = shl <32 x i32> %v50, splat (i32 23)
  %v52 = add <32 x i32> %v51, splat (i32 1065353216)
  %v53 = bitcast <32 x i32> %v52 to <32 x float>
  %v54 = fmul <32 x float> %v48, %v53
  %v55 = fadd <32 x float> splat (float 0x3FF0000000000000), %v54
  %v56 = fdiv <32 x float> splat (float 0x3FF0000000000000), %v55
  %v57 = fmul <32 x float> %v35, %v56
  %v58 = bitcast <32 x float> %v57 to <32 x i32>
  %v59 = lshr <32 x i32> %v58, splat (i32 16)
  %v60 = and <32 x i32> %v59, splat (i32 1)
  %v61 = add <32 x i32> %v60, splat (i32 32767)
  %v62 = add <32 x i32> %v58, %v61
  %v63 = lshr <32 x i32> %v62, splat (i32 16)
  %v64 = fcmp uno <32 x float> %v57, %v57
  %v65 = select <32 x i1> %v64, <32 x i32> splat (i32 32704), <32 x i32> %v63
  %v66 = trunc <32 x i32> %v65 to <32 x i16>
  %v67 = sext i32 %v23 to i64
  %v68 = getelementptr i16, ptr %arg1, i64 %v67
  %v69 = ptrtoint ptr %v68 to i64
  %v70 = icmp ne i64 %streams, 0
  %v72 = and i64 %v69, 63
  %v73 = icmp eq i64 %v72, 0
  %v76 = and i1 %v70, %v73
  br i1 %v76, label %past74, label %through75
past74:
  store <32 x i16> %v66, ptr %v68, align 64, !nontemporal !0
  br label %stored71
through75:
  %v77 = and i64 %v69, 15
  %v78 = icmp eq i64 %v77, 0
  %v81 = and i1 %v70, %v78
  br i1 %v81, label %past79, label %through80
past79:
  store <32 x i16> %v66, ptr %v68, align 16, !nontemporal !0
  br label %stored71
through80:
  store <32 x i16> %v66, ptr %v68, align 2
  br label %stored71
stored71:
  br label %end18
partial20:
  %v84 = bitcast <32 x i1> %v17 to i32
  %v85 = icmp ne i32 %v84, 0
  br i1 %v85, label %some82, label %none83
some82:
  %v86 = sext i32 %v23 to i64
  %v87 = getelementptr i16, ptr %arg0, i64 %v86
  %v88 = call <32 x i16> @llvm.masked.load.v32i16.p0(ptr align 2 %v87, <32 x i1> %v17, <32 x i16> zeroinitializer)
  %v89 = zext <32 x i16> %v88 to <32 x i32>
  %v90 = shl <32 x i32> %v89, splat (i32 16)
  %v91 = bitcast <32 x i32> %v90 to <32 x float>
  %v92 = fcmp ugt <32 x float> %v91, splat (float 0xC05A000000000000)
  %v93 = select <32 x i1> %v92, <32 x float> %v91, <32 x float> splat (float 0xC05A000000000000)
  %v94 = fmul <32 x float> %v91, splat (float 0xBFF7154760000000)
  %v95 = fcmp ugt <32 x float> %v94, splat (float 0xC05F800000000000)
  %v96 = select <32 x i1> %v95, <32 x float> %v94, <32 x float> splat (float 0xC05F800000000000)
  %v97 = fcmp ult <32 x float> %v96, splat (float 0x4060000000000000)
  %v98 = select <32 x i1> %v97, <32 x float> %v96, <32 x float> splat (float 0x4060000000000000)
  %v99 = fadd <32 x float> %v98, splat (float 0x4168000000000000)
  %v100 = fsub <32 x float> %v99, splat (float 0x4168000000000000)
  %v101 = fsub <32 x float> %v98, %v100
  %v102 = call <32 x float> @llvm.fma.v32f32(<32 x float> splat (float 0x3F65F77960000000), <32 x float> %v101, <32 x float> splat (float 0x3F93CEE7A0000000))
  %v103 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v102, <32 x float> %v101, <32 x float> splat (float 0x3FBC6AE640000000))
  %v104 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v103, <32 x float> %v101, <32 x float> splat (float 0x3FDEBF9B00000000))
  %v105 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v104, <32 x float> %v101, <32 x float> splat (float 0x3FF62E4320000000))
  %v106 = call <32 x float> @llvm.fma.v32f32(<32 x float> %v101, <32 x float> %v105, <32 x float> splat (float 0x4000000000000000))
  %v107 = bitcast <32 x float> %v99 to <32 x i32>
  %v108 = sub <32 x i32> %v107, splat (i32 1)
  %v109 = shl <32 x i32> %v108, splat (i32 23)
  %v110 = add <32 x i32> %v109, splat (i32 1065353216)
  %v111 = bitcast <32 x i32> %v110 to <32 x float>
  %v112 = fmul <32 x float> %v106, %v111
  %v113 = fadd <32 x float> splat (float 0x3FF0000000000000), %v112
  %v114 = fdiv <32 x float> splat (float 0x3FF0000000000000), %v113
  %v115 = fmul <32 x float> %v93, %v114
  %v116 = bitcast <32 x float> %v115 to <32 x i32>
  %v117 = lshr <32 x i32> %v116, splat (i32 16)
  %v118 = and <32 x i32> %v117, splat (i32 1)
  %v119 = add <32 x i32> %v118, splat (i32 32767)
  %v120 = add <32 x i32> %v116, %v119
  %v121 = lshr <32 x i32> %v120, splat (i32 16)
  %v122 = fcmp uno <32 x float> %v115, %v115
  %v123 = select <32 x i1> %v122, <32 x i32> splat (i32 32704), <32 x i32> %v121
  %v124 = trunc <32 x i32> %v123 to <32 x i16>
  %v125 = sext i32 %v23 to i64
  %v126 = getelementptr i16, ptr %arg1, i64 %v125
  call void @llvm.masked.store.v32i16.p0(<32 x i16> %v124, ptr align 2 %v126, <32 x i1> %v17)
  br label %none83
none83:
  br label %end18
end18:
  %v127 = add nuw i64 %v6, 1
  store i64 %v127, ptr %cell3
  %v128 = icmp ult i64 %v127, 8
  br i1 %v128, label %piece4, label %piece_end5
piece_end5:
  %next_number = add i64 %number, 1
  store i64 %next_number, ptr %number_cell
  %step0 = add i64 %group0, 1
  store i64 %step0, ptr %group_cell0
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
declare void @llvm.x86.sse.sfence()
!0 = !{i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
